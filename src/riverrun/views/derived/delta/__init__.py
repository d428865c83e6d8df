"""Views as Delta tables. Read `marker_versions` (the marker in a table's own terms), `writing` (what an epoch does to a
table), `files`, then `store`."""
