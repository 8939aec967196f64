"""`asr inspect`: what the models see in a recording."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from asr.cli.options import DEVICE, MODEL, Device, Model, Threads, load_recognizer, refuse_overwriting

VIEW = "What to draw"


def inspect(
    file: Annotated[str, typer.Argument(help="A sound file of any format, - for standard input.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Draw here (png, svg, pdf). Default: on the terminal."),
    ] = None,
    model: Model = MODEL,
    start: Annotated[
        float,
        typer.Option(
            "--start", metavar="SECONDS", min=0, help="Where in the recording to begin.", rich_help_panel=VIEW
        ),
    ] = 0,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds", metavar="SECONDS", min=0.1, max=60, help="How much to look at.", rich_help_panel=VIEW
        ),
    ] = 10,
    layer: Annotated[
        int,
        typer.Option(
            "--layer", metavar="N", help="Whose attention to draw: a block of the encoder.", rich_help_panel=VIEW
        ),
    ] = 8,
    head: Annotated[
        int,
        typer.Option("--head", metavar="N", help="Which head of it; 0: the mean of all.", rich_help_panel=VIEW),
    ] = 0,
    device: Device = DEVICE,
    threads: Threads = None,
) -> None:
    """Draw what the models see: spectrogram with words, gate, CTC posteriors, attention and relative bias.

    $ asr inspect talk.flac
    $ asr inspect talk.flac --start 60 --output seen.png
    """
    import torch

    from asr.audio.files import read_audio
    from asr.errors import ConfigError
    from asr.inspection.drawing import draw_picture, draw_text
    from asr.inspection.seen import inspect_samples
    from asr.nn.gate import SpeechGate

    refuse_overwriting(output, [file])
    recognizer = load_recognizer(model, device, threads)
    rate = recognizer.sample_rate
    samples = torch.from_numpy(read_audio(file, rate))
    stretch = samples[round(start * rate) : round((start + seconds) * rate)]
    if not len(stretch):
        raise ConfigError(f"{file}: there is no sound after {start:g} s: it has {len(samples) / rate:.1f} s")
    seen = inspect_samples(recognizer, SpeechGate.load(), stretch, start=start, layer=layer, head=head)
    if output is None:
        print(draw_text(seen, shutil.get_terminal_size((100, 24)).columns))
    else:
        draw_picture(seen, output, file)
