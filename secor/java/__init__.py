"""Programs in Java and jars for Spark: which Java runs them, and their jars, fetched once."""
