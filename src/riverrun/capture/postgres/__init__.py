"""PostgreSQL 14 and newer as a source of captures. Read `database`, then `assembly` and `decoder`."""
