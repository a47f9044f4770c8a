"""Hudi tables: what they look like, what their timeline says, and commits by Spark."""
