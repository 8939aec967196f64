"""What is wrong with a corpus, told before hours are spent on it: every utterance is read, spelled and compared."""

from __future__ import annotations

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from asr.errors import AsrError
from asr.manifest import Manifest, Utterance, misstated
from asr.nn.features import FeatureConfig
from asr.tokenizer import CtcTokenizer
from asr.training.config import DataConfig
from asr.training.selection import positions_needed, positions_of, target_text

SILENT = 1e-5  # largest sample of silence
FEWEST_WORDS = 4  # of texts whose repetition at the same length is no chance

UNREADABLE = "unreadable audio"
SILENCE = "silent audio"
DAMAGED = "damaged audio"
MISSTATED = "duration misstated"
EMPTY = "empty text"
UNSPELLABLE = "characters outside the vocabulary"
TOO_SHORT = "too short for its text"
TOO_LONG = "longer than data.max_duration"
SAME_AUDIO = "same audio twice"
SAME_TEXT = "same text and duration twice"
LEAKED_AUDIO = "audio that train has"
LEAKED_TEXT = "text and duration that train has"
LEAKED_SPEAKER = "speaker whom train has"
PROBLEMS = (
    UNREADABLE,
    SILENCE,
    DAMAGED,
    MISSTATED,
    EMPTY,
    UNSPELLABLE,
    TOO_SHORT,
    SAME_AUDIO,
    SAME_TEXT,
    LEAKED_AUDIO,
    LEAKED_TEXT,
    LEAKED_SPEAKER,
    TOO_LONG,
)
HARMLESS = (TOO_LONG,)  # left out of training on purpose


@dataclass(frozen=True)
class Item:
    """One utterance as it was found.

    Attributes:
        split: train, dev or test.
        manifest: path of its manifest.
        utterance: its line.
        seconds: real length; none = unreadable.
        digest: of its audio's bytes and place; none = unreadable.
        loudest: its largest sample.
        error: why it cannot be read.
        trouble: what is wrong with it where it can be.
    """

    split: str
    manifest: str
    utterance: Utterance
    seconds: float | None
    digest: bytes | None
    loudest: float = 0.0
    error: str = ""
    trouble: str = ""


@dataclass(frozen=True)
class Finding:
    """One problem of one utterance (or speaker), in one split."""

    problem: str
    split: str
    name: str
    detail: str


@dataclass
class Verdict:
    """All findings, and what was looked at.

    Attributes:
        splits: split -> its utterances, seconds that can be read, and speakers that are named.
        findings: in the order of PROBLEMS.
    """

    splits: dict[str, tuple[int, float, int]]
    findings: list[Finding] = field(default_factory=list)

    @property
    def wrong(self) -> bool:
        return any(finding.problem not in HARMLESS for finding in self.findings)

    def as_dict(self) -> dict:
        """For machines: splits, counts of each problem, and every finding."""
        counts = {problem: sum(f.problem == problem for f in self.findings) for problem in PROBLEMS}
        names = ("utterances", "seconds", "speakers")
        return {
            "wrong": self.wrong,
            "splits": {split: dict(zip(names, values, strict=True)) for split, values in self.splits.items()},
            "problems": counts,
            "findings": [vars(finding) for finding in self.findings],
        }


def validate(
    splits: dict[str, list[Manifest]],
    tokenizer: CtcTokenizer,
    data: DataConfig,
    features: FeatureConfig,
    watch: Callable[[Iterable, int], Iterable] = lambda items, total: items,
) -> Verdict:
    """Reads everything and compares it.

    Args:
        splits: manifests of train, dev and test; one that is in several splits is found in each.
        tokenizer: what texts are spelled with.
        data: how texts are written, and the longest duration.
        features: what gives encoder positions.
        watch: goes through the items while showing how many of `total` are done.
    """
    total = sum(len(manifest) for manifests in splits.values() for manifest in manifests)
    items = list(watch(_inspect_all(splits, features.sample_rate), total))
    findings = [f for item in items for f in _alone(item, tokenizer, data, features)]
    findings += _twice(items, data) + _speakers(items)
    findings.sort(key=lambda finding: PROBLEMS.index(finding.problem))
    return Verdict({split: _amount(items, split) for split in splits}, findings)


def _amount(items: list[Item], split: str) -> tuple[int, float, int]:
    mine = [item for item in items if item.split == split]
    speakers = {speaker for item in mine if (speaker := _speaker(item))}
    return len(mine), round(sum(item.seconds or 0.0 for item in mine), 3), len(speakers)


def _inspect_all(splits: dict[str, list[Manifest]], sample_rate: int) -> Iterator[Item]:
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        for split, manifests in splits.items():
            for manifest in manifests:
                yield from pool.map(lambda u, m=manifest, s=split: _inspect(s, m, u, sample_rate), manifest)
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C need not wait for what is still to be read


def _inspect(split: str, manifest: Manifest, utterance: Utterance, sample_rate: int) -> Item:
    path, troubles = str(manifest.path), []
    try:
        stored = manifest.read_bytes(utterance)
        samples = manifest.read_audio(utterance, sample_rate, troubles.append)
    except AsrError as error:
        return Item(split, path, utterance, None, None, error=str(error).removeprefix(f"{path}: "))
    if not len(samples):
        return Item(split, path, utterance, None, None, error="no sound in it")
    digest = hashlib.blake2b(stored, digest_size=16)
    if utterance.offset is not None:
        digest.update(repr((utterance.offset, utterance.duration)).encode())
    loudest = float(np.abs(samples).max())
    trouble = "".join(troubles).removeprefix(f"{path}: ")
    return Item(split, path, utterance, len(samples) / sample_rate, digest.digest(), loudest, trouble=trouble)


def _alone(item: Item, tokenizer: CtcTokenizer, data: DataConfig, features: FeatureConfig) -> Iterator[Finding]:
    """What is wrong with an utterance by itself."""

    def found(problem: str, detail: str) -> Finding:
        return Finding(problem, item.split, item.utterance.audio, detail)

    stated, seconds = item.utterance.duration, item.seconds
    if seconds is None:
        yield found(UNREADABLE, item.error)
    else:
        if not item.loudest > SILENT:
            yield found(SILENCE, f"{seconds:.2f} s")
        if item.trouble:
            yield found(MISSTATED if misstated(seconds, stated) else DAMAGED, item.trouble)
        if stated > data.max_duration:
            yield found(TOO_LONG, f"{stated:.1f} s")
    text = target_text(item.utterance.text, data)
    if not text:
        yield found(EMPTY, repr(item.utterance.text))
    elif not tokenizer.can_spell(text):
        unknown = sorted({c for c in text if not tokenizer.can_spell(c)} - {" "})
        yield found(UNSPELLABLE, " ".join(unknown) or text)
    elif seconds is not None:
        needed = positions_needed(np.asarray(tokenizer.encode(text)))
        room = positions_of(seconds + data.tail_seconds, features)
        if needed > room:
            yield found(TOO_SHORT, f"{needed} positions needed, {room} there")


def _twice(items: list[Item], data: DataConfig) -> list[Finding]:
    """Utterances that are there more than once: with equal bytes, or else with equal text, length and speaker.

    Those without a named speaker count as of one. Of a few words, equal lengths are no more than chance.
    """
    readable = [item for item in items if item.digest is not None]
    findings = _repeated(readable, lambda item: item.digest, SAME_AUDIO, LEAKED_AUDIO)

    def spoken(item: Item) -> tuple | None:
        text = target_text(item.utterance.text, data)
        return (text, round(item.seconds, 2), _speaker(item)) if len(text.split()) >= FEWEST_WORDS else None

    return findings + _repeated(readable, spoken, SAME_TEXT, LEAKED_TEXT)


def _repeated(items: list[Item], key: Callable[[Item], object], twice: str, leaked: str) -> list[Finding]:
    """`twice` for each but the first of those with equal keys in a split, `leaked` for those that train has, too."""
    first: dict[tuple[str, object], Item] = {}
    for item in items:
        first.setdefault((item.split, key(item)), item)
    findings = []
    for item in items:
        if (value := key(item)) is None:
            continue
        pairs = [(twice, first[item.split, value])]
        if item.split != "train" and ("train", value) in first:
            pairs.append((leaked, first["train", value]))
        for problem, other in pairs:
            if other is not item and (problem in (SAME_AUDIO, LEAKED_AUDIO) or other.digest != item.digest):
                detail = f"as {Path(other.utterance.audio).name} in {other.manifest}"
                findings.append(Finding(problem, item.split, item.utterance.audio, detail))
    return findings


def _speaker(item: Item) -> str | None:
    speaker = item.utterance.extra.get("speaker")
    return None if speaker in (None, "") else str(speaker)


def _speakers(items: list[Item]) -> list[Finding]:
    """Speakers of dev and test whom train has, too."""
    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for item in items:
        if speaker := _speaker(item):
            counts[item.split][speaker][item.manifest] += 1

    def places(split: str, speaker: str) -> str:
        return " and ".join(f"{count} in {manifest}" for manifest, count in counts[split][speaker].items())

    return [
        Finding(LEAKED_SPEAKER, split, speaker, f"{places(split, speaker)}, {places('train', speaker)}")
        for split in counts
        if split != "train"
        for speaker in counts[split]
        if speaker in counts["train"]
    ]
