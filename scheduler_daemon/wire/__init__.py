"""JSON-RPC over lines: bytes to messages and back. No sockets here, and nothing that waits."""
