"""Which output partition a message belongs to."""
