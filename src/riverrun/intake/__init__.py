"""Files as people have them (NDJSON, CSV, Parquet) → rows for a topic, in chunks, with the line of every bad one."""
