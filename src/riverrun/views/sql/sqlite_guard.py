"""What SQL that callers wrote may do in SQLite: read, with functions that are known to do nothing else.

Virtual tables (json_each, fts3tokenize, …) are denied together: SQLite asks for a change of sqlite_master when it connects
one, and a change is refused. That is meant: some of them take pointers that SQL can set.
"""

from __future__ import annotations

import sqlite3

LONGEST = 16 << 20  # bytes of one value or row that a query makes
_READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_TRANSACTION}
_FUNCTIONS = frozenset(
    word
    for line in (
        "abs char coalesce concat concat_ws format glob hex if ifnull iif instr length like likelihood likely lower",
        "ltrim max min nullif octet_length printf quote random randomblob replace round rtrim sign soundex",
        "sqlite_version substr substring trim typeof unhex unicode unistr unlikely upper zeroblob",
        "acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 mod pi pow",
        "power radians sin sinh sqrt tan tanh trunc",
        "current_date current_time current_timestamp date datetime julianday strftime time timediff unixepoch",
        "avg count group_concat median percentile percentile_cont percentile_disc string_agg sum total",
        "cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number",
        "-> ->> json json_array json_array_length json_error_position json_extract json_group_array",
        "json_group_object json_insert json_object json_patch json_pretty json_quote json_remove json_replace json_set",
        "json_type json_valid",
    )
    for word in line.split()
)


def read_only(action: int, name: str | None, what: str | None, database: str | None, inner: str | None) -> int:
    """SQLite's question about each thing that a statement would do."""
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_OK if (what or "").lower() in _FUNCTIONS else sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY
