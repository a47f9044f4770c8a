"""The configuration: what may be said, how it is read, how it is shown."""
