"""Every benchmark runs, checks its own results, and says so when they are wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from bench import report
from bench.__main__ import BENCHMARKS
from bench.crew import Crew
from bench.effort import TINY
from bench.figure import Figure, Took, WrongResult, alternate, rates
from bench.log import append, events
from bench.servers import broker_missing

ROOT = Path(__file__).parent.parent


QUICK = ("sends", "read", "history", "latency")  # the others take long, however little they measure
CASES = [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in BENCHMARKS]


@pytest.mark.parametrize("name", CASES)
def test_every_benchmark_gives_figures_and_leaves_nothing_behind(name, tmp_path):
    if name == "kafka" and (problem := broker_missing()):
        pytest.skip(problem)
    figures = list(BENCHMARKS[name](str(tmp_path), TINY))
    assert figures
    assert all(figure.benchmark == name and figure.value > 0 for figure in figures)
    assert len({figure.case for figure in figures}) == len(figures)
    assert list(tmp_path.iterdir()) == []
    table = report.as_table({"cores": "2"}, figures)
    assert all(figure.case in table for figure in figures)


def test_the_whole_grid_is_size_batch_processes_policy_and_source():
    cases = list(append.cases(every=True))
    keyed = {case for case in cases if case.keyed}
    assert len(keyed) == 2 * 3 * 2 * 3 * 2
    assert len(set(map(str, cases))) == len(cases) == len(keyed) + 2
    assert set(append.cases(every=False)) <= set(cases)
    assert {case.target for case in keyed} == {None, 5e6, 8e5}


@pytest.mark.parametrize("size", events.SIZES.values())
def test_an_event_has_the_size_it_is_named_after(size):
    assert events.block(size).nbytes / events.ROWS == pytest.approx(size, rel=0.02)


@pytest.mark.parametrize("batch", append.BATCHES)
@pytest.mark.parametrize("source", append.TARGETS)
def test_pieces_are_the_block(batch, source):
    pieces = [[piece] if isinstance(piece, dict) else piece for piece in events.pieces(100, batch, source)]
    rows = [row for piece in pieces for row in (piece if isinstance(piece, list) else piece.to_pylist())]
    assert pa.RecordBatch.from_pylist(rows, schema=events.block(100).schema) == events.block(100)


def test_expected_totals_are_those_of_the_rows():
    twice = pa.Table.from_batches([events.block(100)] * 2)
    for rows in (0, 1, 9_999, 10_000, 10_001, 20_000):
        assert events.expected(100, rows) == events.totals(twice.slice(0, rows))


def test_wrong_rows_are_no_speed(open_topic):
    topic = open_topic("events", events.SCHEMA, key="user", time="at", fsync="os")
    rows = events.fill(topic, 100, events.ROWS)
    events.verify(topic, events.expected(100, rows))
    topic.append({**events.pieces(100, 1, "dicts")[0], "quantity": 0})
    with pytest.raises(WrongResult, match="rows of events"):
        events.verify(topic, events.expected(100, rows + 1))


def test_rounds_alternate_and_take_turns_in_going_first():
    order = []
    mine, other = alternate(lambda: order.append("a") or Took(1, 0.5), lambda: order.append("b") or Took(2, 2), 3)
    assert "".join(order) == "ab" + "ba" + "ab" + "ba"
    figure = rates("x", "y", 10, (mine, other), reference="z", target=6)
    assert (figure.value, figure.reference_value, figure.ratio, figure.spread) == (10, 5, 2, 0)
    assert figure.per_processor == 20
    assert figure.on_target


def test_targets_are_met_from_the_right_side():
    latency = Figure("b", "c", "s", value=0.03, spread=0, target=0.02, less_is_better=True)
    share = Figure("b", "c", "rows/s", value=5, spread=0, ratio=0.95, target=0.9, target_is_ratio=True)
    assert (latency.on_target, share.on_target, Figure("b", "c", "s", 1, 0).on_target) == (False, True, None)
    assert "MISSED" in report.as_table({"a": "b"}, [latency])


def test_an_error_in_another_process_is_raised_here():
    with Crew(2) as crew, pytest.raises(FileNotFoundError):
        crew.together(_fail, _fail, "x")


def _fail(*_: object) -> None:
    raise FileNotFoundError("gone")


def test_json_is_one_document_with_the_machine_and_temporary_data_is_removed(tmp_path):
    done = _run("sends", "--quick", "--json", "--dir", str(tmp_path))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert {"cores", "memory", "kernel", "python", "disk"} <= document["machine"].keys()
    assert {result["benchmark"] for result in document["results"]} == {"sends"}
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_name_is_refused():
    done = _run("sned")
    assert done.returncode == 2
    assert "no benchmark is called sned" in done.stderr


def test_interrupting_removes_temporary_data(tmp_path):
    import signal
    import time

    process = subprocess.Popen(_command("latency", "--quick", "--dir", str(tmp_path)), cwd=ROOT, env=_environment())
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("scratch-*/latency/river/topics")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert list(tmp_path.iterdir()) == []


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(*arguments), cwd=ROOT, env=_environment(), capture_output=True, text=True, check=False
    )


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bench", *arguments]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
