"""HTTP: events in, views and streams of changes out, and how everything is.

Read `app` (what is put together), `guard` and `tokens` (who may ask), `body` and `ingest` (events in), `view_routes` and
`topic_routes` (answers), `live_feed` and `sse` (streams), `flows` and `metrics` (how it is), then `server` (sockets and
threads). `pages` is the dashboard. Nothing here knows Spark: a run is asked for its status (`backend.Running`), and
everything else is read from the river.
"""
