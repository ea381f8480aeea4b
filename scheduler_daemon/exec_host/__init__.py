"""The host for command-line agents: one command for each follow-up (`schedctl host-exec`)."""
