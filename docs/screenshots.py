"""Pictures of every page of the dashboard, for the docs: `make screenshots` writes them to docs/images.

The demo is run, its processing is killed once, and its pages are looked at with Chromium.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from serve.test_browser import CHROMIUM, OPTIONS  # noqa: E402

IMAGES = HERE / "images"
RIVERRUN = str(Path(sys.executable).with_name("riverrun"))
PAGES = {
    "flow": "/",
    "time": "/ui/time",
    "topics": "/ui/topics",
    "topic": "/ui/topics/orders",
    "views": "/ui/views",
    "view": "/ui/views/bestsellers?order=place",
    "ledger": "/ui/ledger",
    "epochs": "/ui/epochs",
    "alerts": "/ui/alerts",
}
DARK = ("flow", "time")
NARROW = ("flow", "time")
AT_FIRST = "flow"  # the list below the graph is long
BEFORE, AFTER = 30, 40  # seconds before the processing is killed, and before the pictures are taken
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 380, "height": 800}


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        river = f"{folder}/river"
        command = [RIVERRUN, "demo", "--river", river, "--port", "0", "--no-browser", "--for", "10m"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"}) as demo:
            try:
                take(first_address(demo), river)
            finally:
                demo.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    demo.wait(60)
                demo.kill()


def first_address(demo: subprocess.Popen[str]) -> str:
    """Where the demo says that its page is; the rest of what it says is let through."""
    assert demo.stdout is not None
    for line in demo.stdout:
        sys.stdout.write(line)
        if found := re.search(r"http://127\.0\.0\.1:\d+", line):
            return found[0]
    raise SystemExit("the demo ended before it served a page")


def take(address: str, river: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        watching = browser.new_page()  # samples are taken every second while somebody looks
        watching.goto(f"{address}/ui/time")
        wait_for_numbers(river)
        watching.wait_for_timeout(BEFORE * 1000)
        subprocess.run([RIVERRUN, "demo", "break", "--river", river], check=False)
        watching.wait_for_timeout(AFTER * 1000)
        for name, path in PAGES.items():
            shoot(browser, address + path, f"{name}.png", viewport=WIDE)
            if name in DARK:
                shoot(browser, address + path, f"{name}-dark.png", viewport=WIDE, color_scheme="dark")
            if name in NARROW:
                shoot(browser, address + path, f"{name}-380.png", viewport=PHONE)
        browser.close()


def wait_for_numbers(river: str, seconds: float = 180) -> None:
    """Until the demo's first view has rows."""
    deadline = time.monotonic() + seconds
    asked = [RIVERRUN, "view", "query", "select count(*) as n from bestsellers having count(*) > 0", "--river", river]
    while time.monotonic() < deadline:
        if '"n"' in subprocess.run([*asked, "--json"], capture_output=True, text=True, check=False).stdout:
            return
        time.sleep(2)


def shoot(browser: Browser, address: str, name: str, **options: Any) -> None:
    """One picture in a fresh profile, after a few updates: of the whole page, or of what one sees at first."""
    context = browser.new_context(reduced_motion="reduce", **options)
    page = context.new_page()
    page.goto(address)
    page.wait_for_timeout(2500)
    page.screenshot(path=IMAGES / name, full_page=not name.startswith(AT_FIRST))
    context.close()


if __name__ == "__main__":
    main()
