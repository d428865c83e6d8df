"""Views as full-text indexes (tantivy). Read `index` (an index of one flow and what a commit is), `documents` (rows as
documents), `queries` (searches as tantivy has them), `highlighting`, then `store`."""
