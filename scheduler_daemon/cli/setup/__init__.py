"""What `schedctl setup` writes for each agent, into files that belong to somebody else."""
