"""Values of tables against the database that their changes came from."""
