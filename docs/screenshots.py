"""Pictures of every page of the dashboard, for the docs: `make screenshots` writes them to docs/images.

A small shop is run for two minutes (without Spark, as in the tests), served, and looked at with Chromium.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from riverrun.river import River
from riverrun.serve.server import serve_in_background

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from serve.shop import Customers, ShopRun, shop_flow  # noqa: E402
from serve.test_browser import CHROMIUM, OPTIONS  # noqa: E402

IMAGES = HERE / "images"
PAGES = {
    "flow": "/",
    "node": "/?node={window}#node",
    "time": "/ui/time",
    "time-clicks": "/ui/time?source=stream-clicks",
    "topics": "/ui/topics",
    "topic": "/ui/topics/orders",
    "views": "/ui/views?sql=select shop, sum(orders) as orders, sum(revenue) as revenue from revenue group by shop",
    "view": "/ui/views/cities?order=-revenue",
    "ledger": "/ui/ledger",
    "epochs": "/ui/epochs",
    "alerts": "/ui/alerts",
}
DARK = ("flow", "time", "view", "ledger", "epochs")
NARROW = ("flow", "time", "topics")
SECONDS = 125
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 380, "height": 800}


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    stop = threading.Event()
    with tempfile.TemporaryDirectory() as folder, River(folder) as river:
        run = ShopRun(river, shop_flow(), every=1.0)
        people = Customers(river)

        def live() -> None:
            while not stop.wait(0.5):
                people.act(20, 30)

        river.topic("orders").consumer("billing", start="latest", timeout=0.01).close()
        with run, serve_in_background(river, run, port=0) as served, sync_playwright() as playwright:
            thread = threading.Thread(target=live)
            thread.start()
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
            watching = browser.new_page()  # samples are taken every second while somebody looks
            watching.goto(f"{served.url}/ui/time")
            watching.wait_for_timeout(SECONDS * 1000)
            window = next(node.id for node in run.flow.nodes if node.kind == "window")
            for name, path in PAGES.items():
                if name == "ledger":
                    run.take_over()  # a mark among the epochs, which come next
                address = served.url + path.format(window=window)
                shoot(browser, address, f"{name}.png", viewport=WIDE)
                if name in DARK:
                    shoot(browser, address, f"{name}-dark.png", viewport=WIDE, color_scheme="dark")
                if name in NARROW:
                    shoot(browser, address, f"{name}-380.png", viewport=PHONE)
            stop.set()
            thread.join()
            browser.close()
        with serve_in_background(river, port=0) as served, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
            shoot(browser, served.url, "elsewhere.png", viewport=WIDE)
            browser.close()


def shoot(browser: Browser, address: str, name: str, **options: Any) -> None:
    """One picture of the whole page, in a fresh profile, after a few updates."""
    context = browser.new_context(reduced_motion="reduce", **options)
    page = context.new_page()
    page.goto(address)
    page.wait_for_timeout(1500)
    page.screenshot(path=IMAGES / name, full_page=True)
    context.close()


if __name__ == "__main__":
    main()
