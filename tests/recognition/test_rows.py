"""Decoding many recordings together gives what decoding each alone gives."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.audio.files import read_audio
from asr.events import Final
from asr.nn.decoder import AttentionDecoder
from asr.recognition.recognizer import Recognizer, StreamOptions
from asr.recognition.together import decode_long, decode_together
from asr.search.greedy import attention_greedy
from asr.search.rules import NoEarlyEnd
from asr.tokenizer import PieceTable
from tests.recordings import RATE, SAMPLE, check_equal, speech_like
from tests.small import DECODER, randomise, small_model, small_reader


def alone(recognizer, samples, options):
    """Events of one recording, fed to a stream."""
    stream = recognizer.stream(options)
    return stream.accept(samples, RATE) + stream.finish()


@settings(max_examples=8)
@given(
    st.lists(st.floats(0, 5), min_size=1, max_size=4),
    st.integers(0, 99),
    st.sampled_from([(320, 320), (640, 0), (24, 0), (100, 250)]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_rows_are_what_streams_are(lengths, seed, latency, second_pass, vad, reads):
    """Whatever the lengths, chunks and look-ahead, with an attention decoder and without."""
    recognizer = Recognizer(small_reader(seed) if reads else small_model(seed))
    options = StreamOptions(*latency, second_pass=second_pass, vad=vad)
    recordings = [speech_like(seed + i, seconds) for i, seconds in enumerate(lengths)]
    for samples, events in zip(
        recordings, decode_together(recognizer.model, recognizer.gate_of(options), recordings, options), strict=True
    ):
        check_equal(events, alone(recognizer, samples, options), word_times=False)


def test_real_speech_is_read_alike(english):
    recognizer, samples = Recognizer(english), read_audio(SAMPLE)
    recordings = [samples, samples[: 5 * RATE], 0.01 * samples[6 * RATE : 12 * RATE], np.zeros(RATE, np.float32)]
    together = decode_together(recognizer.model, recognizer.gate_of(StreamOptions()), recordings, StreamOptions())
    assert [sum(isinstance(e, Final) for e in events) for events in together] == [3, 1, 1, 0]
    for samples, events in zip(recordings[:3], together[:3], strict=True):
        check_equal(events, alone(recognizer, samples, StreamOptions()))


@settings(max_examples=15)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.integers(0, 99))
def test_greedy_rows_are_greedy_alone(sizes, seed):
    """Rows of any lengths, some with a witness that keeps them from ending early."""
    decoder = randomise(AttentionDecoder(DECODER), seed)
    table = PieceTable(["<unk>", "<s>", "</s>", *(f"\u2581{chr(97 + i % 26)}{i}" for i in range(37))])
    g = torch.Generator().manual_seed(seed)
    memories = [torch.randn(1, size, DECODER.d_model, generator=g) for size in sizes]
    seconds = [0.1 * size for size in sizes]
    letters = [4 * (i % 3) for i in range(len(sizes))]
    padded = torch.nn.utils.rnn.pad_sequence([m[0] for m in memories], batch_first=True)
    rules = [[NoEarlyEnd(decoder.config.end, heard)] for heard in letters]
    rows = attention_greedy(decoder, table, padded, torch.tensor(sizes), seconds, rules)
    for row, memory, length, rule in zip(rows, memories, seconds, rules, strict=True):
        (single,) = attention_greedy(decoder, table, memory, None, [length], [rule])
        assert row.pieces == single.pieces
        assert row.scores == pytest.approx(single.scores, abs=1e-3)


def test_a_long_recording_is_read_as_a_stream_is():
    recognizer, samples = Recognizer(small_model(3)), speech_like(3, 24)
    options = StreamOptions()
    blocks = np.array_split(samples, math.ceil(len(samples) / (13 * 384)))
    events = [event for event, _ in decode_long(recognizer.model, recognizer.gate_of(options), blocks, options)]
    stream = recognizer.stream(options)
    single = [e for block in blocks for e in stream.accept(block, RATE)] + stream.finish()
    check_equal(events, single)
    assert len(single) >= 2


def test_channels_of_a_long_recording_are_streams_of_their_own():
    recognizer, options = Recognizer(small_model(3)), StreamOptions()
    both = np.stack([speech_like(3, 12), speech_like(4, 12)], 1)
    events = list(
        decode_long(recognizer.model, recognizer.gate_of(options), np.array_split(both, 30), options, separate=True)
    )
    for number in (1, 2):
        mine = [event for event, channel in events if channel == number]
        alone = decode_long(
            recognizer.model, recognizer.gate_of(options), np.array_split(both[:, number - 1], 30), options
        )
        check_equal(mine, [event for event, _ in alone])
