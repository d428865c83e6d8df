"""The port where the JVM calls back into this process, which every user of the machine reaches: only the JVM gets in.

Pyspark opens it without a token, and has the JVM make its client anew, which forgets the one it had. So it is opened here
before pyspark does it, with a token, and the JVM is given a client that knows it.
"""

from __future__ import annotations

import secrets
from typing import Any

_IDLE = 30  # seconds until the JVM closes a connection, as ever
_NO_TIMEOUT = 0


def open_callbacks(gateway: Any) -> None:
    """Open the port of a gateway that has none."""
    from py4j.java_gateway import JavaObject  # type: ignore[import-untyped]

    token = secrets.token_hex(32)
    parameters = gateway.callback_server_parameters
    parameters.auth_token = token
    parameters.eager_load = parameters.daemonize = parameters.daemonize_connections = True
    parameters.port = 0
    gateway.start_callback_server(parameters)
    server = gateway._callback_server
    server.port = gateway._python_proxy_port = server.server_socket.getsockname()[1]

    java = gateway.jvm.java
    java_server = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
    java_gateway, before = java_server.getGateway(), java_server.getCallbackClient()
    client = gateway.jvm.py4j.PythonClient(
        *(java_gateway, None, server.port, before.getAddress(), _IDLE, java.util.concurrent.TimeUnit.SECONDS),
        *(gateway.jvm.javax.net.SocketFactory.getDefault(), java_server, True, _NO_TIMEOUT, token),
    )
    field = java.lang.Class.forName("py4j.Gateway").getDeclaredField("cbClient")
    field.setAccessible(True)  # it can be replaced only by one without a token
    field.set(java_gateway, client)
    before.shutdown()
