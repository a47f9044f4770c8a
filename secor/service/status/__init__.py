"""The status of a process, as JSON and as a page for people."""
