"""The command ``secor verify``: objects, tables, databases, evidence, and a person's report."""
