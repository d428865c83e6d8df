"""SQLite as a source of captures. Read `source`, then `triggers` and `records`."""
