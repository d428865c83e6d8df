"""Stored searches."""
