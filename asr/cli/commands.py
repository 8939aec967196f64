"""The commands and what their ends mean. Heavy modules are imported when a command runs, not before."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from asr.cli.bench import bench
from asr.cli.classify import classify
from asr.cli.devices import devices
from asr.cli.dictate import dictate
from asr.cli.evaluate import evaluate
from asr.cli.inspect import inspect
from asr.cli.live import live
from asr.cli.serve import serve
from asr.cli.tell import tell
from asr.cli.train import train
from asr.cli.transcribe import transcribe
from asr.cli.validate import validate_data
from asr.errors import AsrError
from asr.files import NO_ROOM

app = typer.Typer(
    name="asr",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group, commands in {
    "Speech into text": (transcribe, live, dictate, serve, devices),
    "What the models hear": (classify, inspect),
    "Training": (train, validate_data),
    "Measuring": (evaluate,),
}.items():
    for command in commands:
        app.command(rich_help_panel=group)(command)
app.add_typer(bench, name="bench", rich_help_panel="Measuring")


def _print_version(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:  # as when the shell asks for completions
        from asr import __version__

        print(f"asr {__version__}")
        raise typer.Exit


@app.callback()
def _asr(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Streaming speech recognition: words while you speak, finals when an utterance has ended.

    $ asr live
    $ asr transcribe lecture.mp4 --timestamps
    """


def run() -> None:
    """Runs the command that the process was started with.

    Status 0 = done, 1 = some inputs failed, 2 = wrong usage or nothing that could be done.
    """
    if "_ASR_COMPLETE" in os.environ:
        os.environ["TERMINAL_WIDTH"] = "1000"  # else typer breaks long helps into lines, which fish takes for words
    try:
        app(prog_name="asr")
    except AsrError as error:
        tell(str(error))
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output has gone, as in `asr transcribe ... | head -1`
        _leave_output()
        sys.exit(1)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        tell(f"cannot write: {error.strerror}")
        _leave_output()
        sys.exit(1)


def _leave_output() -> None:
    """What is still buffered for an output that takes nothing more goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
