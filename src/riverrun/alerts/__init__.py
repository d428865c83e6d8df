"""Alerts: messages about rows that a flow found, and about a run that is in trouble.

Read `alerts` (the thread of a run), `alert` and `line` (what is sent when), `retry` (tried again, or given up), `message`
(what is said), `courier` and `webhook` (who carries it), `network_guard` (where to), `watch` (what operators are told).
"""
