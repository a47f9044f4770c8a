"""Commands that look at an archive and change it, of its objects, evidence and quarantine."""
