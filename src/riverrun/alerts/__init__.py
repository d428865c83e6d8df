"""Alerts: messages about rows that a flow found, and about a run that is in trouble."""
