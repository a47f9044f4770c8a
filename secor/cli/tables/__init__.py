"""The commands ``secor tables``, each in its module; ``options`` are those that they share."""
