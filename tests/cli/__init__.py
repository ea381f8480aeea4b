"""schedctl, in this process and in processes of its own."""
