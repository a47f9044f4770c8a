"""What an operator does to committed offsets, pure over the ports."""
