"""The table group: rows become data files of tables, and one commit a cycle makes them visible."""
