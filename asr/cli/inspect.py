"""`asr inspect`: what the models see in a recording."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from asr.cli.options import Device, Model, Threads, load_recognizer, refuse_overwriting


def inspect(
    file: Annotated[str, typer.Argument(help="A sound file of any format, - for standard input.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Draw here (png, svg, pdf). Default: on the terminal.")
    ] = None,
    layer: Annotated[int, typer.Option("--layer", help="Whose attention to draw: a block of the encoder.")] = 8,
    head: Annotated[int, typer.Option("--head", help="Which head of it; 0: the mean of all.")] = 0,
    start: Annotated[float, typer.Option("--start", min=0, help="Second of the recording to begin at.")] = 0.0,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, max=60, help="How much to look at.")] = 10.0,
    model: Model = "en",
    device: Device = "cpu",
    threads: Threads = None,
) -> None:
    """Draw what the models see: spectrogram with words, gate, CTC posteriors, attention and relative bias."""
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
