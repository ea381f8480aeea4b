"""The only place of the daemon with sockets: who is there, what they ask, which host takes what."""
