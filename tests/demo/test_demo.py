"""`riverrun demo` as people run it: killed in the middle, stopped by Ctrl-C, at a terminal; mostly without Spark."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from riverrun.demo.shop import supervision
from riverrun.demo.shop.news import DEMO, hear

PROGRAM = Path(__file__).parents[1] / "programs" / "demo.py"
PATIENCE = 150.0


def until(happened: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = happened()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited in vain for {what}")


class Demo:
    """A demo as a process, and everybody it has started."""

    def __init__(self, directory: Path, *options: str, spark: bool = False, **popen: Any) -> None:
        self.river = directory / "river"
        command = ["-m", "riverrun.cli"] if spark else [str(PROGRAM)]
        self.process = subprocess.Popen(
            [sys.executable, *command, "demo", "--no-browser", "--port", "0", "--river", str(self.river), *options],
            text=True,
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **popen},
        )
        self._root = psutil.Process(self.process.pid)
        self._family: set[psutil.Process] = set()

    def told(self) -> dict[str, Any]:
        if self.process.poll() is None:
            self._family |= set(self._root.children(recursive=True))
        return hear(f"{self.river}/{DEMO}", dict[str, Any]) or {}

    def until_running(self) -> None:
        until(lambda: self.told().get("first_numbers") or self.process.poll() is not None, "the first numbers")

    def end(self) -> tuple[int, str, str]:
        self.told()
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err

    def left(self) -> list[str]:
        """Who lives on, a moment after the demo has ended."""
        _, alive = psutil.wait_procs(self._family, timeout=10)
        return [process.name() for process in alive if process.status() != psutil.STATUS_ZOMBIE]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream:
                stream.close()
        for process in self._family:
            if process.is_running():
                process.kill()


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Callable[..., Demo]]:
    started: list[Demo] = []

    def start(*options: str, **how: Any) -> Demo:
        started.append(Demo(tmp_path, *options, **how))
        return started[-1]

    yield start
    for one in started:
        one.close()


def broken_by_command(running: Demo) -> None:
    asked = [sys.executable, "-m", "riverrun.cli", "demo", "break", "--river", str(running.river), "--json"]
    broken = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert json.loads(broken.stdout)["kills"] == 1


def broken_in_a_browser(running: Demo) -> None:
    """Its pages move, and the button does what it says; no error in the console, no request to anywhere else."""
    from playwright.sync_api import sync_playwright

    from serve.test_browser import CHROMIUM, OPTIONS, moving

    if not os.path.exists(CHROMIUM):
        broken_by_command(running)
        return
    url = running.told()["url"]
    errors: list[str] = []
    requests: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        page = browser.new_page(base_url=url)
        page.set_default_timeout(PATIENCE * 1000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if said.type in ("error", "warning") else None)
        page.on("request", lambda request: requests.append(request.url))
        page.goto("/")
        moving(page, "#figures")
        moving(page, "#graph")
        page.click("text=Break it")
        page.wait_for_selector("#control >> text=killed")
        assert "Events are accepted as before" in str(page.text_content("#control"))
        assert page.is_disabled("text=Break it")
        moving(page, "#control")
        page.wait_for_selector("#control >> text=it was back after")
        assert "● yes every event in the log is counted, once" in str(page.text_content("#control"))
        moving(page, "#figures")
        assert page.is_hidden("#connection")
        page.goto("/ui/alerts")
        page.wait_for_selector("#told >> text=delivered")
        browser.close()
    assert errors == []
    assert requests and [one for one in requests if not one.startswith(url)] == []


def killed_in_the_middle(running: Demo, broken: Callable[[Demo], None]) -> dict[str, Any]:
    """Break it, and give the summary of a demo in which nothing was lost."""
    running.until_running()
    broken(running)
    running.told()
    code, out, err = running.end()
    summary = json.loads(out)
    assert code == 0, err
    assert summary["ok"]
    assert all(check["held"] for check in summary["checks"]), summary["checks"]
    assert len(summary["checks"]) == 4
    assert (summary["kills"], len(summary["outages"])) == (1, 1)
    assert sum(summary["sent"].values()) > 500
    assert len(summary["bestsellers"]) == 5
    assert summary["alerts"] > 0
    assert summary["first_numbers"] > 0
    assert "was killed (SIGKILL)" in err
    assert re.search(r"the processing is back after [\d.]+ s, at epoch \d+\n✓ every event in the log is counted", err)
    assert running.left() == []
    return summary


def test_nothing_is_lost_when_the_processing_is_killed(demo: Callable[..., Demo], riverrun: Any) -> None:
    running = demo("--for", "4s", "--rate", "150", "--json")
    summary = killed_in_the_middle(running, broken_by_command)
    river = str(running.river)
    counted = riverrun("view", "get", "events", "--river", river, "--json").json
    assert sum(row["events"] for row in counted) > 500
    assert summary["river"] == river
    assert "is not empty" in riverrun("demo", "--river", river).error
    assert "no demo runs" in riverrun("demo", "break", "--river", river).error


@pytest.mark.spark
@pytest.mark.recovery
@pytest.mark.timeout(600)
def test_nothing_is_lost_when_spark_is_killed(demo: Callable[..., Demo]) -> None:
    summary = killed_in_the_middle(demo("--for", "45s", "--json", spark=True), broken_in_a_browser)
    assert [step["doing"] for step in summary["start"]][-2:] == [
        "starting Spark and compiling the flow",
        "computing the first epoch",
    ]


def test_the_button_of_its_page_then_ctrl_c_ends_it_in_order(demo: Callable[..., Demo]) -> None:
    running = demo("--rate", "50")
    running.until_running()
    url = running.told()["url"]
    page = httpx.get(url).text
    pressed = httpx.post(f"{url}/ui/break?back=/", headers={"origin": url}, follow_redirects=True)
    assert "Break it" in page and "killed" not in page
    assert "being started again" in pressed.text
    assert "running" not in re.findall(r'class="summary">.*?</p>', pressed.text)[0]
    until(lambda: "it was back after" in httpx.get(url).text, "the new process")
    assert running.told()["kills"] == 1
    running.process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    code, out, err = running.end()
    assert code == 0, err
    assert "Traceback" not in out + err
    assert "✓ every event in the log is counted, once" in out
    assert "curl http://127.0.0.1:" in out
    assert time.monotonic() - begun < 30
    assert running.left() == []
    assert sorted(path.name for path in running.river.glob("demo.*")) == []


def test_a_terminal_that_is_closed_ends_it_in_order(demo: Callable[..., Demo]) -> None:
    ours, theirs = pty.openpty()
    running = demo("--rate", "50", stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    running.until_running()
    os.close(ours)
    running.process.send_signal(signal.SIGHUP)
    running.process.send_signal(signal.SIGHUP)  # a shell hands it on to its jobs
    assert running.process.wait(60) == 0
    assert running.left() == []


def test_a_demo_that_is_killed_leaves_nobody_behind(demo: Callable[..., Demo]) -> None:
    running = demo("--rate", "50")
    running.until_running()
    running.told()
    running.process.kill()
    assert running.left() == []


def test_keys_at_a_terminal(demo: Callable[..., Demo]) -> None:
    ours, theirs = pty.openpty()
    running = demo("--rate", "50", stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""

    def shows(text: bytes) -> bool:
        nonlocal seen
        running.told()
        if select.select([ours], [], [], 0)[0]:
            try:
                seen += os.read(ours, 65536)
            except OSError:  # the other end is closed
                pass
        return text in seen

    until(lambda: shows(b"view bestsellers"), "the picture")
    assert b"break it" in seen
    os.write(ours, b"b")
    until(lambda: shows(b"was killed (SIGKILL)"), "the kill")
    until(lambda: shows(b"the processing is back"), "the new process")
    os.write(ours, b"q")
    until(lambda: shows(b"every event in the log is counted") and running.process.poll() is not None, "the end")
    assert running.process.returncode == 0
    assert b"Traceback" not in seen
    os.close(ours)


def test_processing_that_cannot_start_is_one_line(riverrun: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "COMMAND", (sys.executable, "-c", "import sys; sys.exit('no such thing')"))
    error = riverrun("demo", "--port", "0", "--for", "1s").error
    assert error.startswith("the demo's processing does not start: exit code 1, no such thing")


def test_a_port_that_is_taken_is_a_mistake(riverrun: Any) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "is in use" in riverrun("demo", "--port", str(taken.getsockname()[1])).error


@pytest.mark.slow
def test_its_pages_show_a_bot_and_what_saved_searches_have_met(demo: Callable[..., Demo]) -> None:
    running = demo("--rate", "300")
    running.until_running()
    url = running.told()["url"]

    def page(view: str) -> str:
        running.told()
        answer = httpx.get(f"{url}/ui/views/{view}")
        assert answer.status_code == 200
        return answer.text

    until(lambda: re.search(r"<td[^>]*>bot-7<", page("bots")), "a bot on the page of bots")
    until(lambda: re.search(r"<td[^>]*>saved-user-", page("wanted")), "a saved search on the page of what is wanted")
