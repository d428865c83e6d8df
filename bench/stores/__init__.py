"""Views in other systems: how fast epochs get there."""
