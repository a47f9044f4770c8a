"""What a process is doing now, as JSON and as a page for people."""
