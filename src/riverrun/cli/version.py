"""`riverrun version`"""

from __future__ import annotations

import platform
from importlib.metadata import version as installed

from riverrun.cli.options import DEFAULT_RIVER, JsonOption, RiverOption
from riverrun.cli.output import print_json, print_line


def version(json: JsonOption = False, river: RiverOption = DEFAULT_RIVER) -> None:
    """Print the version."""
    found = {"riverrun": installed("riverrun"), "python": platform.python_version()}
    if json:
        print_json(found)
    else:
        print_line(f"riverrun {found['riverrun']} (Python {found['python']})")
