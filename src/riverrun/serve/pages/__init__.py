"""The dashboard: pages for people, rendered here, and the same pages as they change.

Read `markup` and `quantities` (how things are written), `history` and `arrival_sample` (what is remembered), `shell` (what
every page has), then the pages: `flow_page`, `time_page` and so on. `routes` puts them under their addresses, `live` sends
what has changed to whoever looks.
"""
