"""PostgreSQL 14 and newer as a source of captures. Read `source`, then `assembly` and `decoder`."""
