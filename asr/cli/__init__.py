"""The command line: one small file a command."""

import sys


def main() -> None:
    """Entry point; see `asr.cli.commands.run`. Ctrl-C ends quietly with status 130, also while modules are imported."""
    try:
        from asr.cli.commands import run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
