"""How a demo is found, and asked."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from riverrun.demo.shop import notice
from riverrun.errors import Invalid, NotFound


def test_a_demo_is_found_for_as_long_as_it_lives(tmp_path: Path) -> None:
    river = str(tmp_path)
    with pytest.raises(NotFound, match="no demo runs"):
        notice.find_running(river)
    own = notice.Notice(river)
    assert notice.find_running(river) == river
    own.close()
    assert not notice.is_running(river)
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_keeps_no_river_is_found_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notice.tempfile, "gettempdir", lambda: str(tmp_path))
    with pytest.raises(NotFound, match="no demo runs"):
        notice.find_running(None)
    for name in ("dead", "living"):
        (tmp_path / f"{notice.PREFIX}{name}" / "river").mkdir(parents=True)
    own = notice.Notice(str(tmp_path / f"{notice.PREFIX}living" / "river"))
    assert notice.find_running(None).endswith("living/river")
    own.close()


def test_a_break_is_asked_for_and_answered(tmp_path: Path) -> None:
    own, river = notice.Notice(str(tmp_path)), str(tmp_path)
    own.put(kills=0, down=False)
    answers: list[int] = []
    asking = threading.Thread(target=lambda: answers.append(notice.ask_for_a_break(river)["kills"]))
    asking.start()
    while not own.take_request():
        pass
    assert not own.take_request()
    own.put(kills=1, down=True)
    asking.join()
    assert answers == [1]
    with pytest.raises(Invalid, match="down already"):
        notice.ask_for_a_break(river)
    own.close()
    with pytest.raises(NotFound, match="has ended"):
        notice.await_notice(river, lambda said: False, 5)
