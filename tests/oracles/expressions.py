"""Spark SQL that the testing kit also runs without Spark, and rows to try it on; tests compare the two."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

COLUMNS = pa.schema(
    [
        ("s", pa.string()),
        ("t", pa.string()),
        ("d", pa.float64()),
        ("e", pa.float64()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("m", pa.decimal128(10, 2)),
        ("b", pa.bool_()),
        ("w", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("p", pa.struct([("x", pa.int64()), ("name", pa.string())])),
    ]
)


def _row(*values: object) -> dict[str, object]:
    return dict(zip(COLUMNS.names, values, strict=True))


ROWS = [
    _row(
        "tea time",
        "12",
        2.675,
        2.0,
        7,
        10**12,
        Decimal("12.35"),
        True,
        datetime(2026, 3, 1, 10, 20, 30, 500000, UTC),
        date(2026, 2, 28),
        {"x": 3, "name": "ada"},
    ),
    _row(
        "",
        " -7 ",
        -2.5,
        -3.0,
        -7,
        -5,
        Decimal("-0.05"),
        False,
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        date(1970, 1, 1),
        {"x": None, "name": ""},
    ),
    _row(
        "Ünïcode",
        "0",
        0.5,
        1e-3,
        2,
        3,
        Decimal("1.00"),
        None,
        datetime(2024, 2, 29, tzinfo=UTC),
        date(2024, 12, 31),
        None,
    ),
    _row(None, None, None, None, None, None, None, None, None, None, None),
    _row(
        "a%b_c",
        "+4",
        1.005,
        8.5,
        3,
        4,
        Decimal("99999999.99"),
        True,
        datetime(2026, 12, 28, 1, 2, 3, tzinfo=UTC),
        date(2000, 1, 1),
        {"x": -1, "name": "bob"},
    ),
]

# Beside the columns themselves; whole numbers that would overflow, and divisions by zero, are errors in both.
EXPRESSIONS = """
d + e; d - i; d * l; d / e; l / 2; i / 4; -d; abs(d); abs(i); i % 3; l % 4; i div 2; l div 3; i + l; i * 2; m + m
m * 2; m - 1.5; d * 1.5
m * 1.1; d + m; 1 + 1; 1L + i; 2.5D * d; floor(d); ceil(d); floor(e); round(d, 2); round(d, 1); round(d)
round(e, 2); round(m, 1); round(i)
sqrt(e); exp(e / 10); pow(d, 2); isnan(sqrt(d)); greatest(d, e); least(i, l, 5); greatest(s, t); sqrt(-1.0D) > 1
d > e; d >= 0.5; i < l; s = 'tea time'; s != t; s <=> t; NOT (d > e); d > 0 AND b; b OR d > 1; b AND NULL
d BETWEEN -1 AND 1
s IS NULL; s IS NOT NULL; isnull(d); isnotnull(d); i IN (7, 2); s IN ('', 'x'); s LIKE 'tea%'; s LIKE '%b_c'
s ILIKE 'TEA%'; s RLIKE '^[a-z ]+$'
CASE WHEN d > 1 THEN 'big' WHEN d > 0 THEN 'small' END; CASE i WHEN 7 THEN 1 ELSE 0 END; if(b, 1, 2)
if(d > 0, d, NULL)
coalesce(s, t, 'none'); nvl(d, 0); nullif(s, ''); ifnull(i, -1); coalesce(NULL, i)
concat(s, '-', t); s || t; upper(s); lower(s); length(s); replace(s, 'e', 'E'); startswith(s, 'tea')
endswith(s, 'me'); contains(s, 'a'); split_part(s, ' ', 1); split_part(s, ' ', 2); split_part(s, 'me', 3)
instr(s, 'e'); trim(t); reverse(s); substring(s, 2, 3); substr(s, 3); left(s, 2); right(s, 2); md5(s); sha2(s, 256)
cast(d as int); cast(e as bigint); int(d); cast(m as int); cast(i as double); cast(i as string)
cast(l as int) IS NULL AND false
cast(m as double); cast(i as decimal(10, 2)); cast(b as string); cast(b as int); cast(trim(t) as int)
cast(t as double); cast(w as date)
cast(w as string); cast(w as bigint); cast(w as double); cast(day as timestamp); cast(day as string)
cast('2026-01-02' as date)
w + INTERVAL 1 HOUR; w - INTERVAL '90' MINUTES; w > timestamp'2026-01-01 00:00:00'; w >= '2026-01-01'
day < date'2020-01-01'
w - INTERVAL 2 DAYS; w - timestamp'2026-01-01 00:00:00' > INTERVAL 1 DAY; hour(w); minute(w); second(w); year(w)
month(w); day(w); year(day); to_date(w); datediff(w, day)
date_trunc('hour', w); date_trunc('DAY', w); date_trunc('minute', w); date_trunc('week', w); date_trunc('month', w)
date_trunc('quarter', w)
dayofweek(w); date_format(w, 'yyyy'); split(s, ','); m / 3; substring(s, 0, 2); substring(s, i); locate('a', s, 2)
trim(BOTH 'a' FROM s); unix_timestamp(w); ln(d); log10(e); regexp_extract(s, 'a(.)', 1); split_part(s, ' ', -1)
date_trunc('decade', w); w + INTERVAL 1 MONTH; cast(s as binary); pmod(i, 3); day + INTERVAL 1 DAY; try_cast(s as int)
last_day(w); concat(s, r'\\d'); s LIKE 'a\\\\%b'; m / (m + 1)
unix_micros(w); unix_millis(w); unix_seconds(w); p.x; p.x + 1; upper(p.name); coalesce(p.x, 0) + i
"""
SQL = [text.strip() for line in EXPRESSIONS.strip().splitlines() for text in line.split(";") if text.strip()]
SQL += [
    r"concat(s, 'it''s', '''', '', '''''')",
    r"concat(s, 'a' 'b', 'a'  'b')",
    r"""s = "tea time" OR s = 'a""b'""",
    r"""concat(s, "say ""hi"" ", "it's", "it''s", 'a""b')""",
    r"""concat(s, 'it\'s', "say \"hi\" ", "\'", '\"')""",
    r"concat(s, '\\', 'a\tb\nc', '\u0041', '\101', '\%\_', '\q')",
    r"s RLIKE '^\\w+$'",
    """concat(s, '-- no comment', "/* nor this */; ") /* but this */""",
]

REFUSED = """
xxhash64(s); hash(s); from_json(s, 'x int'); cast(d as string); round(d, i); split_part(s, t, 1); split_part(s, '', 1)
split_part(s, ' ', i); transform(array(1, 2), x -> x + 1); map('a', 1)['a']; initcap(s); s LIKE t; to_char(i, '0009')
collate(s, 'UTF8_LCASE'); sha2(s, 512); cast(p as string); format_string('%s', s); levenshtein(s, t)
"""
UNKNOWN = [text.strip() for line in REFUSED.strip().splitlines() for text in line.split(";") if text.strip()]
