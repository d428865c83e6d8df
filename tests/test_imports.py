"""Dependencies point downwards only. Read from the source, so an import inside a function counts too."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "riverrun"

# What a part must not import. Parts that are not there yet keep their rule.
FORBIDDEN = {
    "errors": {"*"},
    "error_transit": {"*", "-errors"},
    "failpoints": {"*"},
    "ending": {"*"},
    "durable": {"*"},
    "durations": {"*", "-errors"},
    "calendar": {"*", "-durations"},
    "caches": {"*", "-errors", "-durable"},
    "figures": {"*", "-durations"},
    "columns": {"*", "-errors"},
    "settings": {"*", "-errors", "-durations"},
    "position": {"*", "-errors"},
    "type_names": {"*"},
    "ddl": {"*", "-errors", "-type_names"},
    "store_address": {"*", "-errors", "-durations"},
    "java": {"*", "-errors"},
    "json_faults": {"*"},
    "envelopes": {"*", "-errors", "-ddl", "-durations", "-calendar", "-json_faults"},
    "log": {"flow", "state", "kernels", "spark", "views", "river", "alerts"},
    "flow": {"kernels", "state", "spark", "views", "log", "river", "alerts"},
    "patterns": {"*", "-errors", "-ddl", "-flow", "-state"},
    "rules": {"*", "-errors", "-ddl", "-durations", "-flow", "-state", "-expressions", "-patterns"},
    "expressions": {"*", "-errors", "-ddl", "-columns", "-flow"},
    "search": {"*", "-errors"},
    "state": {"kernels", "flow", "spark", "views", "log", "river", "alerts"},
    "kernels": {"flow", "spark", "views", "log", "river", "alerts"},
    "views": {"flow", "kernels", "spark", "log", "river", "alerts"},
    "intake": {"flow", "kernels", "state", "spark", "views", "river", "alerts"},
    "capture": {"flow", "kernels", "spark", "views", "runtime", "alerts"},
    "runtime": {"spark", "alerts", "capture"},
    "river": {"alerts"},
    "alerts": {"kernels", "state", "spark", "views", "serve"},
    "serve": {"spark", "testing"},
}
ONLY_IN = {
    "pyspark": {"spark"},
    "typer": {"cli"},
    "rich": {"cli", "demo"},
    "apprise": {"alerts"},
    "confluent_kafka": {"log"},
    "fastavro": {"log"},
    "psycopg2": {"capture"},
    "pymysql": {"capture"},
    "pymysqlreplication": {"capture"},
    "luqum": {"search"},
    "snowballstemmer": {"search"},
    **{package: {"serve"} for package in ("fastapi", "starlette", "uvicorn", "prometheus_client")},
}


@cache
def modules() -> list[tuple[str, str, ast.Module]]:
    """(part, file, syntax) of every module; a part is a folder or a module at the top."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        relative = path.relative_to(SOURCE)
        syntax = ast.parse(path.read_text(encoding="utf-8"))
        found.append((relative.parts[0].removesuffix(".py"), str(relative), syntax))
    return found


def imports(tree: ast.Module, file: str) -> Iterator[str]:
    """The full names of all imported modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}, line {node.lineno}: imports are absolute"
            yield node.module or ""
            if node.module == "riverrun":
                yield from (f"riverrun.{alias.name}" for alias in node.names)


def is_forbidden(part: str, imported: str) -> bool:
    rules = FORBIDDEN.get(part, set()) | {"cli"}  # it is for people; nobody builds on it
    rules |= {"demo"} if part != "cli" else set()
    rules |= {"serve"} if part not in ("cli", "demo", "__init__") else set()  # the door names it, and loads nothing
    return imported != part and (imported in rules or ("*" in rules and f"-{imported}" not in rules))


def test_imports_point_downwards() -> None:
    wrong = [
        f"{file} imports {name}"
        for part, file, tree in modules()
        for name in imports(tree, file)
        if name.startswith("riverrun.") and is_forbidden(part, name.split(".")[1])
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ONLY_IN)
def test_engines_stay_in_their_folder(package: str) -> None:
    wrong = [
        f"{file} imports {name}"
        for part, file, tree in modules()
        for name in imports(tree, file)
        if name.split(".")[0] == package and part not in ONLY_IN[package]
    ]
    assert wrong == []


def test_how_views_are_stored_is_known_to_their_stores_only() -> None:
    outside = {
        file
        for _, file, tree in modules()
        if not file.startswith("views/sql/")
        and any(name.startswith("riverrun.views.sql") for name in imports(tree, file))
    }
    assert outside == {"views/store.py", "views/derived/store.py"}  # which open them


def test_kafka_is_known_to_its_own_modules_only() -> None:
    outside = {
        file
        for _, file, tree in modules()
        if not file.startswith("log/kafka/")
        and any(name.startswith(("riverrun.log.kafka", "confluent_kafka", "fastavro")) for name in imports(tree, file))
    }
    # Which open it, refuse what it cannot do, and copy from it.
    assert outside <= {"log/opened_log.py", "river.py", "cli/mirror_command.py"}


def test_the_rules_notice_what_they_forbid() -> None:
    assert is_forbidden("log", "flow")
    assert is_forbidden("errors", "durations")
    assert not is_forbidden("settings", "errors")
    assert is_forbidden("doctor", "cli")
    assert not is_forbidden("cli", "log")
    assert is_forbidden("views", "serve")
    assert not is_forbidden("cli", "serve")
    assert is_forbidden("serve", "demo")
    assert is_forbidden("demo", "cli")
    assert not is_forbidden("cli", "demo")
    tree = ast.parse("def f():\n    from riverrun import flow\n    import pyspark.sql")
    assert set(imports(tree, "x.py")) == {"riverrun", "riverrun.flow", "pyspark.sql"}


def test_importing_riverrun_does_no_work() -> None:
    heavy = "('pyarrow', 'numpy', 'polars', 'pyspark')"
    check = f"import sys, riverrun; sys.exit([m for m in {heavy} if m in sys.modules] or 0)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_every_public_name_is_there() -> None:
    import riverrun

    for name in riverrun.__all__:
        assert getattr(riverrun, name).__name__ == name
        assert name in dir(riverrun)
    assert riverrun.__version__
    with pytest.raises(AttributeError, match="has no attribute 'Rivre'"):
        riverrun.Rivre  # noqa: B018


def test_type_checkers_see_the_names_that_there_are() -> None:
    import riverrun

    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    # `import x as x`: without it, a strict checker takes the name for one of the module's own.
    shown = {
        (alias.name, alias.asname, node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert shown == {(name, name, module) for name, module in riverrun._MODULES.items()}


def test_what_public_methods_give_is_public() -> None:
    import riverrun

    assert {"Run", "View", "Change", "Snapshot", "Topic", "Consumer", "Message"} <= set(riverrun.__all__)


def test_a_class_name_means_one_thing() -> None:
    classes: dict[str, list[str]] = {}
    for path in [*sorted(SOURCE.rglob("*.py")), *sorted((SOURCE.parents[1] / "bench").rglob("*.py"))]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(path.name)
    assert {name: files for name, files in classes.items() if len(files) > 1} == {}
