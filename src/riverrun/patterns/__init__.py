"""Patterns over sequences of rows: the language, the automaton, conditions across rows, and the search for matches.

Read `language` (text → tree), `automaton` (tree → tables), `navigation` and `conditions` (SQL over rows of a match →
columns and a small program), `search` (the loop over rows, compiled once for all patterns) and `matcher`, which is what
kernels call.
"""

import riverrun.flow  # noqa: F401  # which reads expressions for this package, and has an operator that uses it
