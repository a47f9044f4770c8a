"""Import of another program's configuration: its properties, a draft, the report."""
