"""Import of Java Secor's configuration: read, translated, reported."""
