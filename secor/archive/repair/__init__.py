"""An operator's changes of committed offsets, pure over the ports."""
