"""The dashboard: pages for people, rendered here, and the same pages as they change.

Read `markup` and `figures` (how things are written), `history` and `arrivals` (what is remembered), `shell` (what every
page has), then the pages: `flow`, `time`, `topics`, `topic`, `views`, `view`, `ledger`, `epochs`, `alerts`. `routes` puts
them under their addresses, `live` sends what has changed to whoever looks.
"""
