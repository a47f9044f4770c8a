"""Messages that a parser could not place: counted, shown, and parsed again."""
