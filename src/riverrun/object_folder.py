"""Files in a bucket of an object store that speaks S3, by `pyarrow.fs`.

Who may use it, the environment says, as everywhere: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or the role of
the machine; AWS_REGION; AWS_ENDPOINT_URL for another server than Amazon's. An address has no login in it.

>>> bucket_address("s3a://lakes/riverrun/")
's3://lakes/riverrun'
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

import pyarrow as pa

from riverrun.errors import Invalid, RiverrunError, Transient, Unavailable

CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
ENVIRONMENT = (
    *CREDENTIALS,
    *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"),
)
"""What a process needs to know that is to use the same bucket elsewhere, where this machine has it from the environment."""

_CODE = re.compile(r"AWS Error (\w+)(?: \(HTTP status \d+\))? during (\w+) operation")
_STATUS = re.compile(r"HTTP (?:status|status code|response code):? ?(\d{3})", re.IGNORECASE)
_LATER = re.compile(r"408|429|5\d\d")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_AWAY = {"NETWORK_CONNECTION", "SLOW_DOWN", "SERVICE_UNAVAILABLE", "INTERNAL_FAILURE", "REQUEST_TIMEOUT", "THROTTLING"}
_REFUSED = {
    *(
        "ACCESS_DENIED",
        "INVALID_ACCESS_KEY_ID",
        "SIGNATURE_DOES_NOT_MATCH",
        "UNRECOGNIZED_CLIENT",
        "INVALID_CLIENT_TOKEN_ID",
    ),
    *("MISSING_AUTHENTICATION_TOKEN", "INVALID_SIGNATURE"),
}
_LONGEST = 300


def bucket_address(text: str) -> str:
    """`s3://BUCKET/PREFIX`, of what people write; `Invalid`, without any part of it that may be secret."""
    scheme, _, rest = text.partition("://")
    if scheme not in ("s3", "s3a"):
        raise Invalid(f"{scheme}://… is no place that all machines see", hint="Give a directory, or s3://BUCKET/PREFIX")
    if "@" in rest or ":" in rest:  # a secret may have a slash in it
        raise Invalid("an address in s3:// has no login", hint="Give it by the environment: AWS_ACCESS_KEY_ID …")
    bucket, _, prefix = rest.strip("/").partition("/")
    if bucket and not _BUCKET.fullmatch(bucket):
        raise Invalid("no bucket has such a name", hint="Write s3://BUCKET/PREFIX")
    if not bucket or not prefix:
        raise Invalid(
            "s3:// needs a path in its bucket, since others may be beside it", hint="Write s3://BUCKET/PREFIX"
        )
    if "?" in rest or "#" in rest or "//" in prefix:
        raise Invalid("an address in s3:// is a bucket and a path, and nothing else", hint="Write s3://BUCKET/PREFIX")
    return f"s3://{bucket}/{prefix}"


class ObjectFolder:
    """The objects right below a prefix. An object is there whole when `write` returns.

    `Transient` while the store does not answer; `Unavailable` where it refuses, or has no such bucket.
    """

    def __init__(self, address: str) -> None:
        self.address = bucket_address(address)
        self._path = self.address.removeprefix("s3://")

    def write(self, name: str, content: bytes | pa.Buffer) -> None:
        with self._noticing(), self._system.open_output_stream(f"{self._path}/{name}") as file:
            file.write(content)

    def read(self, name: str) -> bytes:
        data: bytes = self.buffer(name).to_pybytes()
        return data

    def buffer(self, name: str) -> pa.Buffer:
        """The same as `read`, without a copy."""
        with self._noticing(), self._system.open_input_file(f"{self._path}/{name}") as file:
            return file.read_buffer()

    def names(self) -> list[str]:
        return self._listed(is_file=True)

    def folders(self) -> list[str]:
        """The names of the folders right below this one."""
        return self._listed(is_file=False)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with self._noticing(), suppress(FileNotFoundError):
                self._system.delete_file(f"{self._path}/{name}")

    def remove(self) -> None:
        """Remove everything below the prefix."""
        with self._noticing(), suppress(FileNotFoundError):
            self._system.delete_dir(self._path)

    def check(self) -> None:
        """Raise what would keep a flow from using it: it writes, reads and removes an object."""
        self.write(".riverrun-doctor", b"here")
        if self.read(".riverrun-doctor") != b"here":
            raise Unavailable(f"{self.address} does not give what was written to it")
        self.delete([".riverrun-doctor"])

    def _listed(self, is_file: bool) -> list[str]:
        from pyarrow import fs

        with self._noticing():
            found = self._system.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        wanted = fs.FileType.File if is_file else fs.FileType.Directory
        return sorted(info.base_name for info in found if info.type == wanted)

    @property
    def _system(self) -> Any:
        return _client(self._path.partition("/")[0], *(os.environ.get(name) for name in ENVIRONMENT))

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _as_riverrun(error, self.address) from None


@lru_cache(maxsize=4)
def _client(bucket: str, *environment: str | None) -> Any:
    """One for each process and what its environment says; it keeps connections."""
    from pyarrow import fs

    known = dict(zip(ENVIRONMENT, environment, strict=True))
    endpoint = known["AWS_ENDPOINT_URL_S3"] or known["AWS_ENDPOINT_URL"]
    region = known["AWS_REGION"] or known["AWS_DEFAULT_REGION"]
    options: dict[str, Any] = {"allow_delayed_open": True, "background_writes": False}
    if endpoint:
        scheme, _, host = endpoint.rpartition("://")
        options |= {"scheme": scheme or "https", "endpoint_override": host.rstrip("/"), "region": region or "us-east-1"}
    else:
        options["region"] = region or _region_of(bucket)
    return fs.S3FileSystem(**options)


def _region_of(bucket: str) -> str:
    from pyarrow import fs

    try:
        return str(fs.resolve_s3_region(bucket))
    except OSError as error:
        raise _as_riverrun(error, f"s3://{bucket}") from None


def _as_riverrun(error: OSError, place: str) -> RiverrunError:
    """What the client says, as one of the family. Keys are in none of its messages; signed addresses might be."""
    text = str(error)
    found = _CODE.search(text)
    code, during = (found[1], f" during {found[2]}") if found else ("", "")
    status = _STATUS.search(text)
    detail = text[found.end() :].lstrip(": ") if found else text
    said = re.sub(r"\(Request ID:.*|\?\S+", "", detail).strip()[:_LONGEST]
    why = f"{code}{during}: {said}" if code else said
    if code in _REFUSED or (status and status[1] in ("401", "403")):
        hint = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to those of a user that may read and write there"
        return Unavailable(f"{place} refuses ({why})", hint=hint)
    if code == "NO_SUCH_BUCKET":
        return Unavailable(f"{place}: there is no such bucket", hint="Make it, or correct the address")
    if code in _AWAY or (status and _LATER.fullmatch(status[1])) or "curlCode" in text:
        return Transient(f"{place} does not answer ({why})")
    return Unavailable(f"{place} cannot be used ({why})")
