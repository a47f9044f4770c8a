"""The commands ``secor restore``; ``options`` are those that they share."""
