"""Settings: default < file < environment < argument; a wrong one names itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from riverrun.errors import Invalid, NotFound
from riverrun.river import River
from riverrun.settings import Settings, byte_count, places


def test_who_wins(tmp_path: Path) -> None:
    file = tmp_path / "riverrun.toml"
    file.write_text('segment_bytes = "2 MiB"\nlock_timeout = "2 s"\nmember_lease = 2\n')
    environ = {"RIVERRUN_LOCK_TIMEOUT": "3 s", "RIVERRUN_MEMBER_LEASE": "3 s", "UNRELATED": "1"}
    found = Settings.load(file, environ, member_lease="4 s", poll_limit=None)
    assert found.segment_bytes == 2 << 20
    assert found.lock_timeout == 3_000_000
    assert found.member_lease == 4_000_000
    assert found.poll_limit == Settings().poll_limit


@pytest.mark.parametrize("written", ["-1", "10001"])
def test_a_number_of_shards_that_cannot_be(written: str) -> None:
    with pytest.raises(Invalid, match=f"setting shards: not a number of shards: {written}. Write one from 1 to 10000"):
        Settings.load(environ={"RIVERRUN_SHARDS": written})


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("0", 0),
        ("64 MiB", 64 << 20),
        ("10 kB", 10_000),
        ("10KB", 10_000),
        ("1.5 GB", 1_500_000_000),
        ("7", 7),
        (7, 7),
        ("2TiB", 2 << 40),
    ],
)
def test_sizes(written: str | int, value: int) -> None:
    assert byte_count(written) == value


@pytest.mark.parametrize("written", ["", "much", "-1", "1 XB", "1 MB too", True])
def test_what_is_no_size(written: str | int) -> None:
    with pytest.raises(Invalid, match="not a size"):
        byte_count(written)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("segment_byte = 1", "there is no setting 'segment_byte'. Did you mean 'segment_bytes'?"),
        ('rivr = "here"', "there is no setting 'rivr'. Did you mean 'river'?"),
        ('logs = "kafka://host:9092"', "there is no setting 'logs'. Did you mean 'log'?"),
        ('segment_bytes = "large"', "setting segment_bytes: not a size: 'large'"),
        ('lock_timeout = "soon"', "setting lock_timeout: not a duration: 'soon'"),
        ("segment_bytes = ", "is not TOML"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "riverrun.toml"
    file.write_text(text)
    with pytest.raises(Invalid) as raised:
        Settings.load(file, {})
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('view = "x"', "there is no setting 'view'. Did you mean 'views'?"),
        ("checkpoints = 5", 'setting checkpoints: not a place: 5. Write checkpoints = "…"'),
        ('river = ""', "setting river: not a place: ''"),
    ],
)
def test_a_mistake_in_a_place_is_named(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "riverrun.toml"
    file.write_text(text)
    with pytest.raises(Invalid) as raised:
        places(file, {})
    assert why in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"there is no settings file .*nowhere\.toml"):
        Settings.load(tmp_path / "nowhere.toml", {})
    with pytest.raises(Invalid, match="cannot read the settings file"):
        Settings.load(tmp_path, {})


def test_places_are_in_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "riverrun.toml"
    file.write_text(f'river = "{tmp_path}/one"\nsegment_bytes = "1 MiB"\n')
    monkeypatch.delenv("RIVERRUN_RIVER", raising=False)
    assert places(file) == {"river": f"{tmp_path}/one"}
    with River.from_config(file) as river:
        assert (river.path, river.settings.segment_bytes) == (f"{tmp_path}/one", 1 << 20)
    monkeypatch.setenv("RIVERRUN_RIVER", f"{tmp_path}/two")
    with River.from_config(file) as river:
        assert river.path == f"{tmp_path}/two"


def test_switches_and_addresses(tmp_path: Path) -> None:
    file = tmp_path / "riverrun.toml"
    file.write_text('alert_private_addresses = true\nalert_to = ["mailto://a@example.com", "json://host/a,b"]\n')
    found = Settings.load(file, {})
    assert found.alert_private_addresses
    assert found.alert_to == ("mailto://a@example.com", "json://host/a,b")
    found = Settings.load(file, {"RIVERRUN_ALERT_PRIVATE_ADDRESSES": "no", "RIVERRUN_ALERT_TO": "json://b json://c"})
    assert not found.alert_private_addresses
    assert found.alert_to == ("json://b", "json://c")
    with pytest.raises(Invalid, match="setting alert_private_addresses: neither true nor false: 'maybe'"):
        Settings.load(environ={}, alert_private_addresses="maybe")


def test_a_misspelt_setting_in_the_environment_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"RIVERRUN_EPOCH_ROW": "5"}
    message = "RIVERRUN_EPOCH_ROW is set in the environment, and is no setting. Did you mean 'RIVERRUN_EPOCH_ROWS'"
    for read in (Settings.load, places):
        with pytest.raises(Invalid, match=message):
            read(environ=environ)


def test_addresses_of_services_in_the_environment_are_no_settings() -> None:
    given = {"RIVERRUN_SERVICE_HOST": "10.0.0.1", "RIVERRUN_PORT": "tcp://…", "RIVERRUN_PORT_8400_TCP_ADDR": "10.0.0.1"}
    assert Settings.load(environ={**given, "RIVERRUN_WEB_SERVICE_PORT_HTTP": "80"}) == Settings()
