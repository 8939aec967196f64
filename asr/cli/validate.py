"""`asr validate-data`: what is wrong with the recordings that a configuration trains on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from asr.manifest import Manifest
    from asr.nn.features import FeatureConfig
    from asr.tokenizer import CtcTokenizer
    from asr.training.config import TrainConfig
    from asr.training.validate import Verdict

SHOWN = 2  # examples of each problem in the table


def validate_data(
    config: Annotated[Path, typer.Argument(help="YAML file, such as configs/tiny.yaml.")],
    set_: Annotated[
        Optional[list[str]],  # noqa: UP045 (typer on Python 3.10)
        typer.Option("--set", metavar="KEY=VALUE", help="Override a value, such as data.train=\\[my.jsonl]."),
    ] = None,
    test: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--test", metavar="MANIFEST", help="A test manifest, for speakers and audio that train must not have."
        ),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Every finding as JSON instead of the table.")] = False,
) -> None:
    """Check recordings before you train on them: audio, texts, durations, duplicates, speakers in train and test.

    $ asr validate-data configs/tiny.yaml
    $ asr validate-data configs/tiny.yaml --set 'data.train=\\[mine.jsonl]'

    Exit status: 1 when something is wrong. Every file is decoded, which takes
    minutes for a hundred hours.
    """
    import json

    from rich.console import Console

    from asr.training.load_config import load_config
    from asr.training.setup import open_manifests
    from asr.training.validate import validate

    settings = load_config(config, set_ or [])
    paths = {"train": settings.data.train, "dev": settings.data.dev, "test": tuple(test or ())}
    splits = {split: open_manifests(names) for split, names in paths.items() if names}
    tokenizer, features = _spelling(settings, splits)
    verdict = validate(splits, tokenizer, settings.data, features, _watch)
    if json_output:
        print(json.dumps(verdict.as_dict(), ensure_ascii=False, indent=1))
    else:
        Console().print(_table(verdict))
    if verdict.wrong:
        raise typer.Exit(1)


def _spelling(settings: TrainConfig, splits: dict[str, list[Manifest]]) -> tuple[CtcTokenizer, FeatureConfig]:
    """The tokenizer and the features that training would take."""
    import tempfile

    from asr.errors import ManifestError
    from asr.nn.features import FeatureConfig
    from asr.training.setup import prepare_tokenizer, start_model

    if "train" not in splits:
        raise ManifestError("data.train: names no manifest: give one with --set 'data.train=[my.jsonl]'")
    started = start_model(settings)
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "pieces.model")
        tokenizer = prepare_tokenizer(settings.tokenizer, splits["train"], settings.data, kept, started)
    return tokenizer, started.config.features if started else FeatureConfig(mels=settings.model.mels)


def _watch(items: Iterable, total: int) -> Iterable:
    from rich.console import Console
    from rich.progress import track

    terminal = Console(stderr=True)
    return track(items, "reading", total, console=terminal, transient=True, disable=not terminal.is_terminal)


def _table(verdict: Verdict) -> Table:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from asr.training.validate import HARMLESS, PROBLEMS

    amounts = [
        f"{split}: {count} utterances, {seconds / 60:.1f} min" + (f", {speakers} speakers" if speakers else "")
        for split, (count, seconds, speakers) in verdict.splits.items()
    ]
    table = Table(title="\n".join(amounts), title_justify="left", title_style="", box=box.SIMPLE_HEAD)
    table.add_column("checked for")
    for split in verdict.splits:
        table.add_column(split, justify="right")
    table.add_column("such as", overflow="fold")
    for problem in PROBLEMS:
        mine = [finding for finding in verdict.findings if finding.problem == problem]
        counts = [sum(finding.split == split for finding in mine) for split in verdict.splits]
        examples = [escape(f"{Path(finding.name).name}: {finding.detail}") for finding in mine[:SHOWN]]
        style = "dim" if not mine else "yellow" if problem in HARMLESS else "red"
        table.add_row(problem, *(str(c) if c else "-" for c in counts), "\n".join(examples), style=style)
    return table
