"""Typed formats: decoded fields of messages as columns of Parquet, ORC, Avro or JSON lines."""
