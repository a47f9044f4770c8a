"""The command ``secor doctor``: servers, rights, disk and limits, looked at before a start."""
