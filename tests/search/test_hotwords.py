"""Hotwords: what CTC may have heard of a list, and a decoder that leans towards it."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.audio.files import read_audio
from asr.errors import AsrError
from asr.events import Final, Partial
from asr.recognition.options import RECORDED, StreamOptions
from asr.recognition.recognizer import Recognizer
from asr.search.hotwords import FAINTEST, Hotword, Leaning, Spotter, parse_hotword
from asr.search.hypothesis import Hypothesis
from asr.tokenizer import PieceTable
from tests.recordings import RATE, SAMPLE
from tests.small import small_model

UNSPOKEN = [Hotword(word) for word in ("Timbuktu", "azimuth", "paraffin", "Lake Titicaca", "quince", "Ottokar")]


def by_hand(word: list[int], log_probs: torch.Tensor) -> float:
    """The best of all paths over all stretches of positions that read as the word, from its first piece to its last."""
    against = (log_probs - log_probs.amax(1, keepdim=True)).clamp(min=FAINTEST)
    best = -math.inf
    for size in range(1, len(log_probs) + 1):
        for path in itertools.product({0, *word}, repeat=size):
            read = [output for output, _ in itertools.groupby(path) if output]
            if read == word and path[0] and path[-1]:
                for start in range(len(log_probs) - size + 1):
                    best = max(best, sum(against[start + i, output].item() for i, output in enumerate(path)))
    return best / len(word)


@settings(max_examples=30)
@given(
    st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=3), min_size=1, max_size=3),
    st.integers(1, 6),
    st.integers(0, 999),
    st.integers(0, 6),
)
def test_a_spotter_finds_the_best_path_of_each_word_in_blocks_of_any_size(words, positions, seed, cut):
    log_probs = (3 * torch.randn(positions, 4, generator=torch.Generator().manual_seed(seed))).log_softmax(-1)
    spotter = Spotter(words)
    spotter.accept(log_probs[:cut])
    spotter.accept(log_probs[cut:])
    assert spotter.scores.tolist() == pytest.approx([by_hand(word, log_probs) for word in words], abs=1e-4)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Lake  Titicaca ", Hotword("Lake Titicaca")),
        ("Kubernetes = cooper netties, cube  ernetes", Hotword("Kubernetes", ("cooper netties", "cube ernetes"))),
        ("Ottokar * 1.5", Hotword("Ottokar", (), 1.5)),
        ("C3PO = see three pee oh * 2", Hotword("C3PO", ("see three pee oh",), 2.0)),
    ],
)
def test_a_line_of_a_list(line, expected):
    assert parse_hotword(line) == expected


@pytest.mark.parametrize("line", ["= so", "--", "Ottokar * much", "Ottokar * -1", "Ottokar * nan", ""])
def test_what_is_no_hotword_is_told_in_one_line(line):
    with pytest.raises(AsrError, match="hotword"):
        parse_hotword(line)


def test_the_bonus_grows_along_a_word_however_it_is_cut_and_ends_with_it():
    table = PieceTable(["<unk>", "<s>", "</s>", "▁ti", "▁Ti", "▁t", "ti", "i", "ca", "tica", "▁", "▁lake", "x"])
    rule = Leaning(table, [Hotword("Titica", weight=1.0), Hotword("lake titica", weight=0.5)])

    def bonus(*pieces: str) -> dict[str, float]:
        scores = torch.zeros(len(table))
        rule.filter(Hypothesis([table.pieces.index(piece) for piece in pieces]), scores)
        return {table.pieces[i]: round(scores[i].item(), 2) for i in scores.nonzero()[:, 0].tolist()}

    start = {"▁ti": 2.0, "▁Ti": 2.0, "▁t": 2.0, "▁lake": 1.0}
    assert bonus() == start
    assert bonus("x") == start
    deeper = round(2 * (1 + math.log(2)), 2)
    assert bonus("▁Ti") == {"ti": deeper, "tica": deeper, "▁lake": 1.0}
    assert bonus("▁t") == {"i": deeper, "▁lake": 1.0}
    assert bonus("▁ti", "tica") == {"▁lake": 1.0} | {}
    assert bonus("▁lake")["▁ti"] == 2.0
    assert bonus("▁lake", "▁ti")["tica"] == deeper


@pytest.fixture(scope="module")
def samples():
    return read_audio(SAMPLE)[: round(4.7 * RATE)]


@pytest.mark.parametrize("word", ["recogniser", "recognizer"])
def test_a_name_is_written_as_it_is_wanted_in_finals_and_partials(english, samples, word):
    """The model knows both spellings, and finds one of them likelier."""
    recognizer = Recognizer(english)
    options = StreamOptions(partials="decoder", hotwords=(Hotword(word), *UNSPOKEN))
    stream = recognizer.stream(options)
    events = [e for block in np.array_split(samples, 15) for e in stream.accept(block, RATE)] + stream.finish()
    assert [e.text for e in events if isinstance(e, Final)][-1].endswith(f"streaming speech {word}.")
    assert word in [e.text for e in events if isinstance(e, Partial)][-1]
    (together,) = recognizer.transcribe_batch([samples], StreamOptions(hotwords=(Hotword(word),)))
    assert together.text.endswith(f"streaming speech {word}.")


def test_what_is_not_said_changes_nothing(english, samples):
    recognizer = Recognizer(english)
    plain = recognizer.transcribe(samples)
    listed = recognizer.transcribe(samples, StreamOptions(640, hotwords=tuple(UNSPOKEN)))
    assert listed.text == plain.text


def test_the_list_can_change_while_a_stream_runs(english, samples):
    stream = Recognizer(english).stream(RECORDED)
    stream.accept(samples, RATE)
    stream.listen_for([Hotword("recognizer")])
    first = [e.text for e in stream.accept(np.zeros(2 * RATE), RATE) if isinstance(e, Final)]
    stream.listen_for([Hotword("recogniser")])
    second = [e.text for e in stream.accept(samples, RATE) + stream.finish() if isinstance(e, Final)]
    assert (first[0][-11:], second[0][-11:]) == ("recognizer.", "recogniser.")


def test_where_they_would_be_ignored_that_is_an_error():
    recognizer, hotwords = Recognizer(small_model()), (Hotword("quince"),)
    for options in StreamOptions(hotwords=hotwords), StreamOptions(second_pass=False, hotwords=hotwords):
        with pytest.raises(AsrError, match="attention decoder"):
            recognizer.stream(options)
