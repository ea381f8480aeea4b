"""The only place with SQL: the file, its schema, and one method per transaction."""
