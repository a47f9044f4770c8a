"""The words that every room uses: messages, errors, ports, names."""
