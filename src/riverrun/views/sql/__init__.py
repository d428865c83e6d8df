"""View stores in SQL databases.

Read `database` (what a database has to do), `catalogue` (what is written down beside the rows), `commits`, then `sqlstore`,
which holds it all. `sqlite` and `postgres` are the databases; `sqlite_tables` and `postgres_tables` their tables of rows.
"""
