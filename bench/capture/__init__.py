"""Captures of databases."""
