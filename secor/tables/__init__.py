"""The table group: rows become data files of tables, visible by one commit a table and cycle."""
