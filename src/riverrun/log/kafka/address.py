"""Where a Kafka cluster is: `kafka://host:9092,other:9092?prefix=shop.&security.protocol=SASL_SSL&…`.

What librdkafka needs to be let in (SASL, TLS) follows the question mark, by its own names. `${NAME}` is put in from the
environment only when connecting, and what is secret is never shown.

>>> address = KafkaAddress.parse("kafka://a:9092,b?prefix=shop.&sasl.username=ada&sasl.password=s3cret")
>>> address.public
'kafka://a:9092,b:9092?prefix=shop.&sasl.username=ada&sasl.password=…'
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from riverrun.columns import check_name
from riverrun.errors import Invalid, Unavailable

_FORM = "kafka://HOST:9092[,HOST2:9092][?prefix=NAMES.&security.protocol=…&sasl.mechanism=…]"
_BROKER = re.compile(r"[A-Za-z0-9._-]+(:\d{1,5})?|\[[0-9A-Fa-f:]+\](:\d{1,5})?")
_PASSED_ON = re.compile(r"(security|sasl|ssl|enable\.ssl|socket)\.[a-z.]+|client\.(id|rack)")
_SECRET = re.compile(r"password|secret|\.pem$|oauthbearer\.config")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True)
class KafkaAddress:
    """An address that can be one. `public` is what is shown; `prefix` is what names of topics begin with in Kafka."""

    brokers: str
    public: str
    prefix: str = ""
    topic: str = ""  # behind the brokers, in addresses of one topic
    options: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> KafkaAddress:
        """`Invalid`, without any secret in it, for one that cannot be."""
        scheme, mark, rest = text.partition("://")
        where, _, query = rest.partition("?")
        brokers, _, topic = where.partition("/")
        named = [broker.strip() for broker in brokers.split(",")]
        if scheme != "kafka" or not mark or not all(_BROKER.fullmatch(broker) for broker in named):
            raise Invalid("not the address of a Kafka cluster", hint=f"Write {_FORM}")
        named = [broker if re.search(r":\d+$", broker) else f"{broker}:9092" for broker in named]
        options = dict(parse_qsl(query, keep_blank_values=True))
        prefix = options.pop("prefix", "")
        if prefix:
            check_name(prefix, "topic")
        if topic:
            check_name(topic)
        for name in options:
            if not _PASSED_ON.fullmatch(name):
                raise Invalid(
                    f"an address of Kafka has no option {name!r}",
                    hint="There are prefix, and what librdkafka needs to connect: security.*, sasl.*, ssl.*, socket.*",
                )
        shown = [*([("prefix", prefix)] if prefix else []), *((name, _shown(name, options[name])) for name in options)]
        public = f"kafka://{','.join(named)}{'/' + topic if topic else ''}"
        public += "?" + "&".join(f"{name}={value}" for name, value in shown) if shown else ""
        return cls(",".join(named), public, prefix, topic, options)

    def client_options(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """How a client connects. `Unavailable` where a variable is not set."""
        given = os.environ if environ is None else environ

        def value(found: re.Match[str]) -> str:
            if found[1] not in given:
                raise Unavailable(
                    f"Kafka at {self.brokers}: the environment has no {found[1]}", hint=f"Set {found[1]} to its value"
                )
            return given[found[1]]

        options = {name: _VARIABLE.sub(value, text) for name, text in self.options.items()}
        return {"bootstrap.servers": self.brokers, **options}


def named_variables(address: str) -> list[str]:
    """The variables of the environment that an address names.

    >>> named_variables("kafka://broker:9092?sasl.password=${KAFKA_PASSWORD}")
    ['KAFKA_PASSWORD']
    """
    return _VARIABLE.findall(address)


def _shown(name: str, value: str) -> str:
    return "…" if _SECRET.search(name) and _VARIABLE.sub("", value) else value
