"""`schedctl`, the command line of a client: what a person types, and what a person reads."""
