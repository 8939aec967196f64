"""What of the manifests is trained on: texts as pieces, and which utterances are left out for what reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asr.errors import ManifestError
from asr.manifest import Manifest, Utterance
from asr.nn.encoder import SUBSAMPLING
from asr.nn.features import FeatureConfig
from asr.text import TEXT_FORMS
from asr.tokenizer import CtcTokenizer
from asr.training.config import DataConfig


def target_text(text: str, data: DataConfig) -> str:
    """A text as it is trained on (`data.text`), with single spaces."""
    return TEXT_FORMS[data.text](text)


def positions_of(seconds: float, features: FeatureConfig) -> int:
    """Encoder positions that so much audio gives."""
    return int(seconds * features.sample_rate) // features.hop // SUBSAMPLING


def positions_needed(targets: np.ndarray) -> int:
    """The fewest positions in which CTC can write pieces: one each, and a blank between two that are equal."""
    return len(targets) + int((targets[1:] == targets[:-1]).sum())


@dataclass(frozen=True)
class Selection:
    """Utterances of several manifests with their targets, kept in arrays that workers share at no cost.

    Attributes:
        manifests: where they are.
        manifest: `(utterances,)` which of the manifests.
        index: `(utterances,)` which utterance of it.
        durations: `(utterances,)` seconds, without the tail.
        pieces: the targets of all utterances, one after the other.
        starts: `(utterances + 1,)` where in `pieces` those of an utterance begin.
        left_out: reasons and how many utterances each has cost.
    """

    manifests: list[Manifest]
    manifest: np.ndarray
    index: np.ndarray
    durations: np.ndarray
    pieces: np.ndarray
    starts: np.ndarray
    left_out: dict[str, int]

    def __len__(self) -> int:
        return len(self.index)

    def targets(self, i: int) -> np.ndarray:
        """Pieces of utterance i, `(pieces,)`."""
        return self.pieces[self.starts[i] : self.starts[i + 1]]

    def utterances(self, indices: Sequence[int]) -> list[Utterance]:
        """What the manifests say of some utterances."""
        return [self.manifests[self.manifest[i]][int(self.index[i])] for i in indices]


def select(
    manifests: list[Manifest],
    tokenizer: CtcTokenizer,
    data: DataConfig,
    features: FeatureConfig,
    *,
    everything: bool = False,
) -> Selection:
    """The utterances that can be trained on; with `everything` (dev) all, and pieces that cannot be spelled are errors.

    Where `data.held_out` makes the dev set, each has its part of the manifests.

    Those of which `data.text` leaves nothing cannot be compared either: they are left out in any case.

    Raises:
        ManifestError: nothing is left.
    """
    left_out: Counter[str] = Counter()
    rows: list[tuple[int, int, float]] = []
    targets: list[np.ndarray] = []
    for number, manifest in enumerate(manifests):
        for i in range(len(manifest)):
            if is_held_out(i, data) not in (None, everything):
                continue
            utterance = manifest[i]
            text = target_text(utterance.text, data)
            pieces = np.asarray(tokenizer.encode(text), np.int32)
            room = positions_of(utterance.duration + data.tail_seconds, features)
            reason = None
            if not everything:
                reason = _obstacle(text, pieces, utterance.duration, room, tokenizer, data)
            elif utterance.text.strip() and not text:
                reason = f"of whose text data.text: {data.text} leaves nothing"
            if reason is not None:
                left_out[reason] += 1
                continue
            rows.append((number, i, utterance.duration))
            targets.append(pieces)
    if not rows:
        reasons = "; ".join(f"{count} {reason}" for reason, count in left_out.items()) or "the manifests are empty"
        raise ManifestError(f"no utterance can be used: {reasons}")
    which, index, durations = (np.asarray(column) for column in zip(*rows, strict=True))
    starts = np.cumsum([0, *(len(t) for t in targets)])
    return Selection(manifests, which, index, durations, np.concatenate(targets), starts, dict(left_out))


def is_held_out(i: int, data: DataConfig) -> bool | None:
    """Whether the i-th utterance of a manifest is in the dev set that is held out, evenly; None = there is none."""
    if data.dev or not data.held_out:
        return None
    return int((i + 1) * data.held_out) > int(i * data.held_out)


def _obstacle(
    text: str, pieces: np.ndarray, duration: float, room: int, tokenizer: CtcTokenizer, data: DataConfig
) -> str | None:
    """Why an utterance cannot be trained on; None = it can."""
    if not text:
        return "without text"
    if duration > data.max_duration:
        return f"longer than data.max_duration ({data.max_duration:g} s)"
    if not tokenizer.can_spell(text):
        return "with characters that the tokenizer does not know"
    if positions_needed(pieces) > room:
        return "too short for their text"
    return None
