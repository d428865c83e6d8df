"""Riverrun."""
