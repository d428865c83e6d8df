"""Who the demo's alerts are sent to: a webhook on this machine that keeps the last message."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TO = "SHOP_ALERTS"  # where the flow file looks for an address
_LONGEST = 1 << 20


class Inbox:
    """Takes messages until it is closed. One that comes again, with the same key, is not counted again."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.last: str | None = None
        inbox = self

        class InboxHook(BaseHTTPRequestHandler):
            timeout = 10

            def do_POST(self) -> None:
                length = self.headers.get("Content-Length", "")
                key = self.headers.get("Idempotency-Key")
                if not length.isdigit() or int(length) > _LONGEST or key is None:
                    self.send_error(400)
                    return
                inbox.take(key, self.rfile.read(int(length)))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """The demo says itself what there is to say."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), InboxHook)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="demo-inbox", daemon=True).start()

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs so that its flow finds the way here: it is an address of this machine."""
        address = f"json://127.0.0.1:{self._server.server_port}/alerts"
        return {TO: address, "RIVERRUN_ALERT_PRIVATE_ADDRESSES": "true"}

    def take(self, key: str, body: bytes) -> None:
        """A message."""
        self.keys.add(key)
        self.last = str(json.loads(body).get("message"))

    def close(self) -> None:
        """Take no more."""
        self._server.shutdown()
        self._server.server_close()
