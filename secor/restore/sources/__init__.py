"""Sources of a restore: each module is a ``RestoreSource``."""
