"""What `riverrun demo` shows: `shop`, a web shop whose processing can be killed, and `tour`, the log alone.

Nothing builds on it but the command line.
"""
