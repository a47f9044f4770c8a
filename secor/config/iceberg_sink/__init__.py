"""From the Iceberg sink for Kafka Connect to this: its configuration read and translated."""
