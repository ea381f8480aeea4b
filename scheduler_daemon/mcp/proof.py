"""What proves that the hook or plugin of an agent named the Session of a call, and not its model.

Both know a key that `schedctl setup` made. The proof of one Session is none of another's.
"""

from __future__ import annotations

import hmac
import secrets
from pathlib import Path

KEY_BYTES = 32


def new_key() -> str:
    """The text of a key file."""
    return secrets.token_hex(KEY_BYTES) + "\n"


def read_key(path: Path) -> bytes:
    """The key in a file. Raises OSError, and ValueError for anything else."""
    key = bytes.fromhex(path.read_text("ascii").strip())
    if len(key) != KEY_BYTES:
        raise ValueError("that is no key")
    return key


def proof_of(key: bytes, session: str) -> str:
    """What goes with a Session: its HMAC-SHA256 (RFC 2104) in hex."""
    return hmac.new(key, _bytes(session), "sha256").hexdigest()


def proves(key: bytes, session: str, given: object) -> bool:
    """Whether `given` is the proof of this Session."""
    return isinstance(given, str) and hmac.compare_digest(
        _bytes(proof_of(key, session)), _bytes(given)
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
