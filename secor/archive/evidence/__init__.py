"""Evidence: what a verification proved, written down, signed, and checked later without Kafka."""
