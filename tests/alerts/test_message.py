"""What people read, and what webhooks get."""

from __future__ import annotations

import datetime as dt
import decimal
import json

from riverrun.alerts.message import compose, format_row, show_value


def test_values_are_plain() -> None:
    east = dt.timezone(dt.timedelta(hours=2))
    assert show_value(dt.datetime(2026, 1, 31, 1, 0, 0, 250_000, tzinfo=east)) == "2026-01-30 23:00:00.25 UTC"
    assert show_value(dt.datetime(2026, 1, 31, 1)) == "2026-01-31 01:00:00"
    assert show_value(dt.date(2026, 1, 31)) == "2026-01-31"
    assert show_value(decimal.Decimal("1.10")) == "1.10"
    assert show_value({"a": [None]}) == '{"a":[null]}'
    assert show_value(b"\x00\xff") == "00ff"
    assert show_value("a\r\nBcc: eve\x00") == "a  Bcc: eve "
    assert show_value("x" * 600) == "x" * 500 + "…"


def test_a_name_is_a_column_and_nothing_else() -> None:
    assert format_row("{a.__class__} {{}} {gone}", {"a": "x", "a.__class__": "column"}) == "column {} –"
    assert format_row("{a:.1f}|{b:.1f}|{c:>3}", {"a": 1.26, "b": "text", "c": None}) == "1.3|text|–"


def test_one_row_is_its_line_and_more_are_counted() -> None:
    assert compose("f", "a", "k", "{n}", 1, [{"n": 7}]).text == "7"
    assert compose("f", "a", "k", "{n}", 2, [{"n": 7}, {"n": 8}]).text == "2 rows:\n- 7\n- 8"
    many = compose("f", "a", "k", "{n}", 100, [{"n": n} for n in range(9)])
    assert many.text.splitlines()[-1] == "and 95 more"
    assert many.title == "f: a (100 rows)"


def test_large_rows_do_not_make_large_bodies() -> None:
    rows = [{"n": "x" * 100_000} for _ in range(5)]
    body = compose("f", "a", "k", "{n}", 5, rows).body()
    assert len(body) < 300_000
    assert len(json.loads(body)["rows"]) == 2


def test_numbers_that_json_does_not_have() -> None:
    body = json.loads(compose("f", "a", "k", None, 1, [{"n": float("nan"), "d": decimal.Decimal("1.5")}]).body())
    assert body["rows"] == [{"n": None, "d": "1.5"}]
