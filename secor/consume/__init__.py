"""The loop: topic partitions, their positions, what is read into batches."""
