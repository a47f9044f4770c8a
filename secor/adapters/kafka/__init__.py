"""Kafka through kafka-python 3.0.12: the source, the ledger in Kafka, and plain reading."""

from secor.adapters.kafka.ledger import KafkaLedger, KafkaOperatorLedger
from secor.adapters.kafka.log_reader import KafkaReader
from secor.adapters.kafka.relocation import KafkaMovableLedger
from secor.adapters.kafka.source import KafkaSource
from secor.adapters.kafka.tokens import token_provider

__all__ = [
    "KafkaLedger",
    "KafkaMovableLedger",
    "KafkaOperatorLedger",
    "KafkaReader",
    "KafkaSource",
    "token_provider",
]
