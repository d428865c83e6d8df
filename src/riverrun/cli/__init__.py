"""The command line: one command, or one group of commands, per file; `commands` puts them together.

A user's mistake is one line on stderr and exit code 2. RIVERRUN_DEBUG=1 shows the traceback behind it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    from riverrun.cli.standard_streams import fill_closed_streams, silence_stdout

    fill_closed_streams()
    try:
        from riverrun.cli.commands import run
        from riverrun.open_files import raise_limit

        raise_limit()
        code = run(sys.argv[1:] if args is None else list(args))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader (`| head`) has what it wanted
        silence_stdout()
        return 0
    except OSError as error:  # a full disk, or a stdout that was closed from the beginning
        silence_stdout()
        sys.stderr.write(f"riverrun: stdout: {error.strerror}\n")
        return 1
    return code
