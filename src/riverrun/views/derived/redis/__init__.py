"""Views in Redis: one hash for each row. `encoding` says what is in it, `scripts` how it gets there, `store` holds both."""
