"""What a row in a list of changes says."""

OP = "_op"  # the column
INSERT, DELETE, OLD, NEW = range(4)
