"""The commands ``secor recover`` and ``secor drill``."""
