"""`asr bench`: measurements on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from asr.cli.options import Device, Model, Partials, SecondPass, Switch, Threads, load_recognizer

bench = typer.Typer(help="Measure this machine: how long words take to the screen.", no_args_is_help=True)
MODES = "160+160,320+0,320+320,640+0"


@bench.callback()
def _bench() -> None:
    pass


@bench.command()
def latency(
    recordings: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Sound files, or manifests (.jsonl).")],
    modes: Annotated[str, typer.Option(help="Chunk + look-ahead in milliseconds, separated by commas.")] = MODES,
    partials: Annotated[Partials, typer.Option(help="What reads the partials.")] = Partials.decoder,
    second_pass: SecondPass = Switch.on,
    limit: Annotated[int, typer.Option(min=1, help="At most so many utterances of each manifest.")] = 20,
    json_output: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
    model: Model = "en",
    device: Device = "cpu",
    threads: Threads = 1,
) -> None:
    """Word end to word on the screen, endpoint to final, time a chunk takes, and how many words are taken back.

    Recordings are fed as a microphone would, in blocks of 20 ms; waiting is simulated, computing is measured.
    """
    from asr.audio.files import read_audio
    from asr.endpoint import EndpointRules
    from asr.evaluation.latency import LatencyReport, measure_latency
    from asr.manifest import Manifest
    from asr.recognizer import StreamOptions

    pairs = [_mode(text) for text in modes.split(",")]
    recognizer = load_recognizer(model, device, threads)
    samples = []
    for path in recordings:
        if path.suffix == ".jsonl":
            corpus = Manifest(path)
            samples += [corpus.read_audio(utterance, recognizer.sample_rate) for utterance in corpus[:limit]]
        else:
            samples.append(read_audio(path, recognizer.sample_rate))
    print(f"{len(samples)} recordings, {sum(map(len, samples)) / recognizer.sample_rate:.0f} s, in each mode")
    kinds = ("word to screen", "waiting for sound", "compute a chunk", "final")
    print(f"{'mode':>9}" + "".join(f"  {kind:>20}" for kind in kinds) + "  taken back")
    print(f"{'ms':>9}" + f"  {'p50    p90    p99':>20}" * len(kinds))
    results = {}
    for chunk_ms, look_ahead_ms in pairs:
        report = LatencyReport()
        options = StreamOptions(
            chunk_ms,
            look_ahead_ms,
            second_pass=second_pass is Switch.on,
            partials=partials.value,
            endpoint=EndpointRules(pause=0.8),
        )
        measure_latency(recognizer, samples, options, report)
        name = f"{chunk_ms:g}+{look_ahead_ms:g}"
        r = results[name] = report.as_dict()
        columns = [
            "  " + " ".join(f"{r[f'{kind}_p{q}_ms']:6.0f}" for q in (50, 90, 99))
            for kind in ("words", "algorithmic", "chunks", "finals")
        ]
        print(f"{name:>9}{''.join(columns)}  {100 * r['unstable_partial_word_ratio']:6.1f} %", flush=True)
        if r["stable_words_taken_back"]:
            print(f"{'':>9}  {r['stable_words_taken_back']} words that were shown as stable were taken back")
    if json_output is not None:
        json_output.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


def _mode(text: str) -> tuple[float, float]:
    chunk, plus, look_ahead = text.partition("+")
    try:
        return float(chunk), float(look_ahead) if plus else 0.0
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no mode such as 320+320", param_hint="--modes") from error
