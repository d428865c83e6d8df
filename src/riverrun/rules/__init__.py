"""Rules as data: patterns that are rows of a table, many at once over the same rows.

Read `rule` (a row → a compiled rule, or why not), `comparisons` and `columns` (what rules ask of single rows, each once for
all rules), `search` (all rules over the sequences of an epoch) and `measures` (what is said of the matches found).
"""
