"""The consumer loop: assignment, positions, state of each topic partition, backpressure."""
