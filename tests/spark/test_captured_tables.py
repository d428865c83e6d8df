"""Captured tables under Spark: without a schema, and never with half of a source's transaction."""

from __future__ import annotations

import json

import pytest

import riverrun as rr
from riverrun.capture.topics import transactions_spec

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
SCHEMA = "id bigint, amount bigint, _position string, _transaction string"


def test_what_is_not_whole_is_not_read(spark_session, tmp_path):
    with rr.River(str(tmp_path / "river")) as river:
        tables = [river.topic(f"bank.{name}", SCHEMA, key="id", compact=True) for name in ("debits", "credits")]
        told = river.topic(transactions_spec("bank"))

        def tell() -> None:
            ends = {topic.name: list(topic.ends().values()) for topic in tables}
            row = {"transaction": "1", "position": "1", "at": "2026-01-01T00:00:00Z", "rows": 2, "kind": "commit"}
            told.append({**row, "ends": json.dumps(ends)})

        flow = rr.Flow("ledger")
        sums = [
            flow.table(f"bank.{name}").with_columns(all="1").group("all").agg(**{name: rr.sum("amount")})
            for name in ("debits", "credits")
        ]
        flow.view("sums", sums[0].join(sums[1], "all"))
        for number in range(1, 4):
            for topic in tables:
                topic.append({"id": number, "amount": number})
            tell()
        tables[0].append({"id": 9, "amount": 100})  # the other half is not there yet
        with river.run(flow) as run:
            run.process(timeout="2 minutes")
            assert river.view("sums").rows() == [{"all": 1, "debits": 6, "credits": 6}]
            tables[1].append({"id": 9, "amount": 100})
            tell()
            run.process(timeout="2 minutes")
            assert river.view("sums").rows() == [{"all": 1, "debits": 106, "credits": 106}]
