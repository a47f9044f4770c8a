"""The restore group: archives back into Kafka, each message once, in transactions."""
