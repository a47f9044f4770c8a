"""Programs for work on Secor; not in the wheel."""
