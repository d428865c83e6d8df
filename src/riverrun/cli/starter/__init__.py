"""The files that `riverrun new` writes, as templates; see `cli/new_command.py`."""
