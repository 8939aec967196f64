"""Recordings decoded together: their utterances are read in groups, and results are those of single streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import torch

from asr.events import Event
from asr.nn.gate import SpeechGate
from asr.nn.speech_model import SpeechModel
from asr.recognition.options import READ_TOGETHER, StreamOptions
from asr.recognition.second_pass import read_utterances
from asr.recognition.segmenter import Segmenter, hotwords_of
from asr.recognition.segments import Clock, Utterance
from asr.recognition.stream import Stream
from asr.writing.rewriting import rewrite


@torch.inference_mode()
def decode_together(
    model: SpeechModel,
    gate: SpeechGate | None,
    recordings: Sequence[np.ndarray],
    options: StreamOptions,
    heard: Callable[[int, float], None] = lambda recording, seconds: None,
) -> list[list[Event]]:
    """The events of each of several recordings `(samples,)` at the model's rate.

    `heard` is told on the way which recording has been worked on, and how many seconds of it.
    """
    options = replace(options, partials="off")
    found: list[tuple[int, Utterance]] = []
    for number, samples in enumerate(recordings):
        segmenter = Segmenter(model, options, gate)
        found += [(number, one) for one in chain(segmenter.accept(torch.from_numpy(samples)), segmenter.finish())]
    events: list[list[Event]] = [[] for _ in recordings]
    hotwords = hotwords_of(model, options.second_pass, options.hotwords)
    utterances = [utterance for _, utterance in found]
    words = read_utterances(
        model, utterances, options, hotwords, lambda index, seconds: heard(found[index][0], seconds)
    )
    for (number, utterance), read in zip(found, words, strict=True):
        clock = Clock(model.position_seconds, len(recordings[number]) / model.config.features.sample_rate)
        events[number] += rewrite(options.writing, clock.events(utterance.segment, read))
    return events


def decode_long(
    model: SpeechModel,
    gate: SpeechGate | None,
    blocks: Iterable[np.ndarray],
    options: StreamOptions,
    separate: bool = False,
) -> Iterator[tuple[Event, int | None]]:
    """The events of one recording of any length, with the channel (from 1) of each if `separate`.

    Args:
        model: the model.
        gate: the speech gate, if it is asked.
        blocks: its samples at the model's rate, `(samples,)`, or `(samples, channels)` with `separate`.
        options: as for streams, one for each channel; partials are not made.
        separate: channels are kept apart.
    """
    options, streams = replace(options, partials="off"), []
    for block in chain(blocks, [None]):
        channels = () if block is None else block.T if separate else block[None]
        streams += [Stream(model, options, gate=gate, together=READ_TOGETHER) for _ in channels[len(streams) :]]
        for number, stream in enumerate(streams, start=1):
            for event in stream.finish() if block is None else stream.accept(channels[number - 1], stream.sample_rate):
                yield event, number if separate else None
