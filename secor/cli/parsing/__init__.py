"""The commands ``secor parser`` and ``secor schema``: messages tried without a daemon."""
