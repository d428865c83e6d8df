import msgspec
import polars as pl
import pytest

from contracts.state import PLAIN, WINDOWS, StateContract, frame
from riverrun.errors import Conflict, Corrupt, NewerFormat, OlderFormat
from riverrun.state.directory import StateDirectory, files_of
from riverrun.state.table import TableSpec


class Epochs:
    """Opens, commits and opens again, as a flow does; entries go through msgpack."""

    def __init__(self, directory, specs):
        self.directory, self.specs, self.entries, self.epoch = directory, specs, {}, 0

    @property
    def entry(self):
        return self.entries["3"]

    def open(self):
        return self.directory.open(self.entries, self.specs, node="n 1/x", shard=3, shards=4)

    def commit(self, state):
        self.epoch += 1
        self.entries = msgspec.msgpack.decode(msgspec.msgpack.encode(state.commit(self.epoch)))
        return self.open()


class TestInline(StateContract):
    """Small states stay in the manifest."""

    inline_bytes = 64 << 10

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path):
        self.path = tmp_path / "state"

    def open(self, specs):
        self.epochs = Epochs(StateDirectory(self.path, inline_bytes=self.inline_bytes), specs)
        return self.epochs.open()

    def settle(self, state):
        return self.epochs.commit(state)


class TestFiles(TestInline):
    """The same with every delta in a file of its own."""

    inline_bytes = 0


def many(n, start=0, value=0.0):
    return pl.DataFrame(
        {"key": [f"k{i}" for i in range(n)], "start": [start] * n, "item": [0] * n, "value": [value] * n}
    )


def test_small_changes_write_no_file(tmp_path):
    epochs = Epochs(StateDirectory(tmp_path / "s"), {"t": WINDOWS})
    state = epochs.open()
    for n in range(20):
        state["t"].put(frame(("a", n, 0, float(n))))
        state = epochs.commit(state)
    assert files_of(epochs.entry) == []
    assert len(msgspec.msgpack.encode(epochs.entry)) < 10_000
    assert len(state["t"].scan()) == 20


def test_large_changes_are_files_that_anybody_can_read(tmp_path):
    epochs = Epochs(StateDirectory(tmp_path / "s"), {"t": WINDOWS})
    state = epochs.open()
    state["t"].put(many(10_000))
    epochs.commit(state)
    (file,) = files_of(epochs.entry)
    assert file.startswith("000000000001-n_1_x-3-t-")
    seen = pl.read_ipc(tmp_path / "s" / file)
    assert sorted(seen["key"]) == sorted(many(10_000)["key"])


def test_runs_stay_few_and_small_ones_are_absorbed(tmp_path):
    epochs = Epochs(StateDirectory(tmp_path / "s", inline_bytes=0), {"t": PLAIN})
    state = epochs.open()
    for n in range(60):
        state["t"].put(many(500).with_columns(item=n))
        state = epochs.commit(state)
        runs = epochs.entry["tables"]["t"]["runs"]
        sizes = [run["rows"] for run in runs]
        assert sizes == sorted(sizes)
        assert len(sizes) <= 12
    assert sum(sizes) == 60 * 500


def test_rows_written_again_and_again_do_not_pile_up(tmp_path):
    epochs = Epochs(StateDirectory(tmp_path / "s", inline_bytes=0), {"t": WINDOWS})
    state = epochs.open()
    for n in range(10):
        state["t"].put(many(1000, value=float(n)))
        state = epochs.commit(state)
    assert [run["rows"] for run in epochs.entry["tables"]["t"]["runs"]] == [1000]
    assert set(state["t"].scan()["value"]) == {9.0}


def test_runs_that_follow_each_other_in_time_are_rarely_rewritten(tmp_path):
    epochs = Epochs(StateDirectory(tmp_path / "s", inline_bytes=0), {"t": WINDOWS})
    state = epochs.open()
    for n in range(40):
        rows = pl.concat([many(100, start=n * 10 + at) for at in range(10)])
        state["t"].put(rows)
        state["t"].release(n * 10 - 200)
        state = epochs.commit(state)
        assert len(epochs.entry["tables"]["t"]["runs"]) <= 9
        wanted = many(100).select("key")
        assert len(state["t"].probe_range(wanted, n * 10 - 15, n * 10 + 3)[0]) == 100 * min(18, n * 10 + 3)
    written = sum(len(pl.read_ipc(file)) for file in (tmp_path / "s").glob("*.arrow"))
    assert written < 2.5 * 40 * 1000
    # what is out of order is merged as ever
    for _ in range(4):
        state["t"].put(many(1000, start=250))
        state = epochs.commit(state)
    assert len(epochs.entry["tables"]["t"]["runs"]) <= 9


def test_released_runs_leave_the_manifest(tmp_path):
    epochs = Epochs(StateDirectory(tmp_path / "s", inline_bytes=0), {"t": WINDOWS})
    state = epochs.open()
    for start in range(6):
        state["t"].put(many(6000 - 1000 * start, start=start))
        state = epochs.commit(state)
    state["t"].release(100)
    state = epochs.commit(state)
    assert files_of(epochs.entry) == []
    assert state["t"].scan().is_empty()


def test_sweep_removes_orphans_older_than_the_oldest_kept_epoch(tmp_path):
    directory = StateDirectory(tmp_path / "s", inline_bytes=0)
    epochs = Epochs(directory, {"t": WINDOWS})
    state = epochs.open()
    state["t"].put(many(100))
    state = epochs.commit(state)
    zombie = directory.open({}, {"t": WINDOWS}, node="n", shard=3)
    zombie["t"].put(many(7))
    zombie.commit(2)
    kept = []
    for n in range(2, 5):
        state["t"].put(many(100, value=float(n)))
        state = epochs.commit(state)
        kept.append(epochs.entry)
    before = set(directory.files.names())
    assert len(before) == 5
    removed = directory.sweep(kept[1:], oldest=3)
    assert len(removed) == 3
    assert set(directory.files.names()) == {file for entry in kept[1:] for file in files_of(entry)}
    assert set(state["t"].scan()["value"]) == {4.0}


def test_damaged_and_missing_files_are_named(tmp_path):
    epochs = Epochs(StateDirectory(tmp_path / "s", inline_bytes=0), {"t": WINDOWS})
    state = epochs.open()
    state["t"].put(frame(("a", 1, 1, 1.0)))
    epochs.commit(state)
    path = tmp_path / "s" / files_of(epochs.entry)[0]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Corrupt, match=f"{path.name} has .* bytes instead of"):
        epochs.open()["t"].scan()
    path.unlink()
    with pytest.raises(Corrupt, match="missing"):
        epochs.open()["t"].scan()


def test_every_flipped_bit_of_a_file_is_named(tmp_path):
    """A value was another one without a word; an offset of a string was an address, and a crash."""
    epochs = Epochs(StateDirectory(tmp_path / "s", inline_bytes=0), {"t": WINDOWS})
    state = epochs.open()
    state["t"].put(frame(("a", 1, 1, 1.0), ("b", 2, 1, 2.0)))
    epochs.commit(state)
    path = tmp_path / "s" / files_of(epochs.entry)[0]
    whole = path.read_bytes()
    for at in range(0, len(whole), 17):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :])
        with pytest.raises(Corrupt, match=f"{path.name} is not what was written. Rebuild the flow"):
            epochs.open()["t"].scan()
    path.write_bytes(whole)
    assert len(epochs.open()["t"].scan()) == 2


def test_state_of_another_node_is_refused(tmp_path):
    epochs = Epochs(StateDirectory(tmp_path / "s"), {"t": WINDOWS})
    state = epochs.open()
    state["t"].put(frame(("a", 1, 1, 1.0)))
    epochs.commit(state)
    epochs.specs = {"t": TableSpec({**WINDOWS.schema, "extra": pl.Int64()}, ("key",), ("key",), "start")}
    with pytest.raises(Conflict, match="extra"):
        epochs.open()
    with pytest.raises(NewerFormat):
        epochs.directory.open({"0": {"version": 99, "tables": {}}}, {}, node="n")
    with pytest.raises(OlderFormat, match="state of node 'n' was written by an older Riverrun. Rebuild the flow"):
        epochs.directory.open({"0": {"version": 2, "tables": {}}}, {}, node="n")
