"""A webhook's receiver on this machine: keeps what it gets, and answers as it is told. And a flow that alerts it."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from riverrun import Flow, River
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Topic
from riverrun.runtime.outputs import alert_topic

SCHEMA = "user string, amount double, at timestamp"


class Receiver:
    """`answers` are used up one by one: a status, (status, headers), or "never"; afterwards it is 200."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.answers: list[Any] = []
        self.closed = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append({"path": self.path, "headers": dict(self.headers), "body": body})
                answer = receiver.answers.pop(0) if receiver.answers else 200
                if answer == "never":
                    receiver.closed.wait(30)
                elif answer == "drip":
                    self.drip()
                else:
                    status, headers = answer if isinstance(answer, tuple) else (answer, {})
                    self.send_response(status)
                    for name, value in {"Content-Length": "0", **headers}.items():
                        self.send_header(name, value)
                    self.end_headers()

            do_PUT = do_GET = do_POST

            def drip(self) -> None:
                """A byte now and then, so that no single wait is long."""
                try:
                    while not receiver.closed.wait(0.1):
                        self.wfile.write(b"H")
                        self.wfile.flush()
                except OSError:
                    pass

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"json://127.0.0.1:{self.port}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(one["body"]) for one in self.got]

    def keys(self) -> list[str]:
        return [one["headers"]["Idempotency-Key"] for one in self.got]

    def wait(self, count: int, timeout: float = 10) -> None:
        end = time.monotonic() + timeout
        while len(self.got) < count:
            assert time.monotonic() < end, f"{len(self.got)} of {count} messages came"
            time.sleep(0.01)

    def close(self) -> None:
        self.closed.set()
        self.server.shutdown()
        self.server.server_close()


def fraud(*to: str, **options: Any) -> Flow:
    flow = Flow("shop")
    orders = flow.stream("orders", SCHEMA, time="at")
    flow.alert("fraud", orders, to=list(to), **options)
    return flow


def fired(river: River) -> Topic:
    """The topic that the flow's commit writes."""
    return river.topic(TopicSpec(alert_topic("shop", "fraud"), SCHEMA, partitions=1))
