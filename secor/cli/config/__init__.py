"""The commands ``secor config``, and the examples that it writes."""
