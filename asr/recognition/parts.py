"""Utterances as the second pass can read them: no longer than the decoder is used to, and with an ending.

Moonshine's decoder, trained on clips, goes round in circles over much more than half a minute of sound, and where a
recording breaks off in the middle of a word it makes up how it might go on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from torch.nn import functional as F

from asr.nn.encoder import SUBSAMPLING
from asr.nn.gate import SILENCE
from asr.nn.speech_model import SpeechModel
from asr.recognition.endpoint import Segment, best_pause
from asr.recognition.segments import Utterance

LONGEST = 30.0  # s that are read at a time
ENDING = 11  # positions (0.26 s) of silence after what was cut in the middle of speech


def readable_parts(model: SpeechModel, utterance: Utterance) -> Iterator[Utterance]:
    """An utterance in parts of at most `LONGEST` seconds, cut at the best pauses, in the stream's positions."""
    longest, segment = int(LONGEST / model.position_seconds), utterance.segment
    start = 0
    if utterance.positions > longest:
        power = model.power(utterance.log_power[None])[0]
        loudness = power.masked_fill(utterance.heard, math.inf).tolist()
        while utterance.positions - start > longest:
            end = start + max(1, best_pause(loudness[start : start + longest], model.position_seconds))
            yield _part(utterance, start, end, "length")
            start = end
    yield _part(utterance, start, utterance.positions, segment.reason)


def with_ending(utterance: Utterance) -> Utterance:
    """The same with silence after it, where it was cut in the middle of speech."""
    if utterance.segment.reason != "length":
        return utterance
    frames = F.pad(utterance.log_power, (0, 0, 0, ENDING * SUBSAMPLING), value=SILENCE)
    return replace(utterance, log_power=frames, sounding=min(utterance.sounding, len(utterance.log_power)))


def _part(utterance: Utterance, start: int, end: int, reason: str) -> Utterance:
    begin = utterance.segment.start
    if (start, end) == (0, utterance.positions):
        return with_ending(utterance)
    return with_ending(
        Utterance(
            Segment(begin + start, begin + end, reason),
            utterance.log_power[start * SUBSAMPLING : end * SUBSAMPLING],
            utterance.log_probs[start:end],
            utterance.heard[start:end],
            max(1, utterance.sounding - start * SUBSAMPLING),
            None if utterance.speech is None else utterance.speech[start:end],
        )
    )
