"""What a message costs: the daemon against real servers of its own, and its pieces alone."""
