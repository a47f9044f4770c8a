"""Objects of an archive against the log that they were stored from, or alone."""
