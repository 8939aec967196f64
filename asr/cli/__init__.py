"""The command line: one small file a command. Heavy modules are imported when a command runs, not before."""

from __future__ import annotations

import os
import sys

import typer

from asr.cli.bench import bench
from asr.cli.classify import classify
from asr.cli.devices import devices
from asr.cli.evaluate import evaluate
from asr.cli.inspect import inspect
from asr.cli.live import live
from asr.cli.train import train
from asr.cli.transcribe import transcribe
from asr.cli.validate import validate_data
from asr.errors import AsrError
from asr.files import NO_ROOM

app = typer.Typer(
    name="asr",
    help="Streaming speech recognition: words while you speak, finals when an utterance has ended.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(transcribe)
app.command()(live)
app.command()(devices)
app.command()(evaluate)
app.command()(train)
app.command()(validate_data)
app.command()(classify)
app.command()(inspect)
app.add_typer(bench, name="bench")


def main() -> None:
    """Entry point. Status 0 = done, 1 = some inputs failed, 2 = wrong usage or nothing that could be done."""
    try:
        app()
    except AsrError as error:
        print(f"asr: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has gone, as in `asr transcribe ... | head -1`
        _leave_output()
        sys.exit(1)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        print(f"asr: cannot write: {error.strerror}", file=sys.stderr)
        _leave_output()
        sys.exit(1)


def _leave_output() -> None:
    """What is still buffered for an output that takes nothing more goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
