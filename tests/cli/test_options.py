"""Which river a command opens, and with which parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Riverrun
from riverrun.cli.options import places_of
from riverrun.river import River


@pytest.fixture
def rivers(riverrun: Riverrun) -> Riverrun:
    """Two rivers, of which the settings file names one."""
    for name in ("data", "other"):
        with River(name) as river:
            river.topic(f"of_{name}", "k string")
    Path("riverrun.toml").write_text('river = "./data"\nviews = "data/file.db"\ncheckpoints = "data/file"\n')
    return riverrun


def topics(riverrun: Riverrun, *args: str) -> list[str]:
    return [one["name"] for one in riverrun("topic", "list", "--json", *args).json]


def test_the_river_is_that_of_the_file_unless_one_is_named(rivers: Riverrun, monkeypatch: pytest.MonkeyPatch) -> None:
    assert topics(rivers) == ["of_data"]
    assert topics(rivers, "--river", "other") == ["of_other"]
    monkeypatch.setenv("RIVERRUN_RIVER", "other")
    assert topics(rivers) == ["of_other"]
    assert topics(rivers, "--river", "data") == ["of_data"]


def test_a_file_says_nothing_of_another_river(rivers: Riverrun, monkeypatch: pytest.MonkeyPatch) -> None:
    assert places_of(f"{Path.cwd()}/data") == {"views": "data/file.db", "checkpoints": "data/file"}
    assert places_of("other") == {}
    monkeypatch.setenv("RIVERRUN_VIEWS", "env.db")
    assert places_of("data") == {"views": "env.db", "checkpoints": "data/file"}
    assert places_of("other") == {"views": "env.db"}
    Path("riverrun.toml").write_text('checkpoints = "anywhere"\n')
    assert places_of("other") == {"views": "env.db", "checkpoints": "anywhere"}


def test_a_mistake_in_the_file_is_one_line(rivers: Riverrun) -> None:
    Path("riverrun.toml").write_text('view = "x"\n')
    refused = rivers("topic", "list")
    assert (refused.code, refused.error) == (2, "there is no setting 'view'. Did you mean 'views'?")
