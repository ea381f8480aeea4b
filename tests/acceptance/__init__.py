"""What a user is promised, tried on real processes and sockets, by their events."""
