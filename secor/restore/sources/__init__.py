"""What can be restored: each module is a ``RestoreSource``."""
