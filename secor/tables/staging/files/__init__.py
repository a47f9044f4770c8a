"""Data files as tables want them: field ids in the schema, statistics next to the bytes."""
