"""Many rules at once over the same rows."""
