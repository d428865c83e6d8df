"""The command line: one command, or one group of commands, per file; `commands` puts them together.

A user's mistake is one line on stderr and exit code 2. RIVERRUN_DEBUG=1 shows the traceback behind it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    try:
        from riverrun.cli.commands import run
        from riverrun.open_files import raise_limit

        raise_limit()
        code = run(sys.argv[1:] if args is None else list(args))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader (`| head`) has what it wanted. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code
