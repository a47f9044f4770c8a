"""The local files of one topic partition, and when they are sealed."""
