"""Storage: the schema, the one writer, and the queries, on SQLite and PostgreSQL."""
