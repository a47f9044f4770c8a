"""The command line: each command parses, calls and prints; ``main`` finds it by its name."""
