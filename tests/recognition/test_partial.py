"""Partials: drafts change nothing but speed, what is stable stays, and words are said once."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import asr.recognition.partial
from asr.audio.files import read_audio
from asr.evaluation.wer import error_rate
from asr.events import Endpoint, Final, Partial
from asr.recognition.partial import (
    MOST_PASSES,
    PLAUSIBLE,
    PLAUSIBLE_MORE,
    SURE,
    SURE_UNHEARD,
    UNHEARD,
    CtcPartial,
    DecoderPartial,
)
from asr.recognition.recognizer import Recognizer, StreamOptions
from asr.search.alignment import align_words
from asr.search.ctc import ctc_greedy
from asr.search.hypothesis import Hypothesis
from asr.search.rules import NoRepeats
from asr.text import letter_count
from asr.tokenizer import PieceTable
from tests.recordings import RATE, SAMPLE, TEXTS, speech_like
from tests.small import ENCODER, TABLE, small_model, small_reader


def posteriors(model, positions: int) -> torch.Tensor:
    """A piece at every other position, so that CTC hears many letters."""
    best = torch.arange(positions) % 2 * 3
    return torch.nn.functional.one_hot(best, len(model.tokenizer)).float().mul(9).log_softmax(-1)


@pytest.fixture
def certain(monkeypatch):
    """No word is in doubt: all are written, and shown."""
    for name, value in (("SURE", 0), ("SURE_UNHEARD", 0), ("PLAUSIBLE_MORE", 10**6)):
        monkeypatch.setattr(asr.recognition.partial, name, value)


@pytest.fixture
def unbounded(monkeypatch):
    monkeypatch.setattr(asr.recognition.partial, "MOST_PASSES", 10**6)


@pytest.mark.usefixtures("certain", "unbounded")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 30), st.lists(st.integers(5, 40), min_size=2, max_size=4))
@torch.no_grad()
def test_a_checked_draft_gives_what_decoding_anew_gives(seed, sizes):
    """As long as nothing is agreed on, the hypothesis is the greedy one over the whole memory."""
    model = small_reader(seed)
    memory = torch.randn(1, sum(sizes), ENCODER.d_model, generator=torch.Generator().manual_seed(seed))
    partial, start = DecoderPartial(model), 0
    for size in sizes:
        partial._agreed, partial._history = 0, []
        partial.update(memory[:, start : start + size], posteriors(model, size))
        start += size
        anew = DecoderPartial(model)
        anew.update(memory[:, :start], torch.cat([posteriors(model, n) for n in sizes])[:start])
        assert partial.pieces == anew.pieces


@pytest.mark.usefixtures("unbounded")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 30), st.integers(20, 80))
@torch.no_grad()
def test_nothing_is_written_after_a_word_in_doubt_until_it_is_said_again(seed, size):
    model = small_reader(seed)
    memory = torch.randn(1, size, ENCODER.d_model, generator=torch.Generator().manual_seed(seed))
    partial, heard = DecoderPartial(model), posteriors(model, size)
    partial.update(memory, heard)
    for _ in range(3):
        starts = [group[0] for _, group in TABLE.words(partial.pieces)] or [0]
        assert partial.text in (TABLE.decode(partial.pieces), TABLE.decode(partial.pieces[: starts[-1]]))
        partial.update(memory[:, :0], heard[:0])


@given(st.integers(0, 30), st.lists(st.integers(5, 40), min_size=2, max_size=4))
@torch.no_grad()
def test_words_in_doubt_wait_until_they_are_said_again(seed, sizes):
    model = small_reader(seed)
    memory = torch.randn(1, sum(sizes), ENCODER.d_model, generator=torch.Generator().manual_seed(seed))
    partial, heard = DecoderPartial(model), torch.cat([posteriors(model, size) for size in sizes])
    for start, end in itertools.pairwise(itertools.accumulate([0, *sizes])):
        before = partial.pieces
        partial.update(memory[:, start:end], heard[start:end])
        pieces, words = partial.pieces, TABLE.words(partial.pieces)
        if partial.text == TABLE.decode(pieces):
            continue
        place = next(i for i, (_, group) in enumerate(words) if TABLE.decode(pieces[: group[0]]) == partial.text)
        whole = pieces[: words[place][1][-1] + 1]
        assert whole != before[: len(whole)]
        letters = letter_count(model.tokenizer.decode(ctc_greedy(heard[:end])))
        if letter_count(TABLE.decode(whole)) > PLAUSIBLE * letters + PLAUSIBLE_MORE:
            continue
        state = model.decoder.start(memory[:, :end])
        logits, _ = model.decoder(torch.tensor([[model.decoder.config.start, *pieces]]), state)
        chances = logits[0].softmax(-1)[range(len(pieces)), pieces]
        unheard = align_words([text for text, _ in words], heard[:end], model.tokenizer)[place].score < UNHEARD
        assert unheard or place == len(words) - 1
        assert chances[words[place][1]].min() < (SURE_UNHEARD if unheard else SURE)


@pytest.mark.usefixtures("certain")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 30), st.integers(20, 80))
@torch.no_grad()
def test_an_update_takes_few_passes_and_later_ones_catch_up(seed, size):
    model = small_reader(seed)
    memory = torch.randn(1, size, ENCODER.d_model, generator=torch.Generator().manual_seed(seed))
    passes, forward = [], model.decoder.forward
    model.decoder.forward = lambda *arguments: passes.append(1) or forward(*arguments)
    partial, heard = DecoderPartial(model), posteriors(model, size)
    partial.update(memory, heard)
    assert len(passes) <= MOST_PASSES
    for _ in range(12):
        passes.clear()
        partial.update(memory[:, :0], heard[:0])
        assert len(passes) <= MOST_PASSES
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asr.recognition.partial, "MOST_PASSES", 10**6)
        anew = DecoderPartial(model)
        anew.update(memory, heard)
    assert partial.pieces == anew.pieces


@pytest.fixture(scope="module")
def recognizer():
    return Recognizer.load()


@pytest.fixture(scope="module")
def events(recognizer):
    stream, events = recognizer.stream(StreamOptions(partials="decoder")), []
    for block in torch.from_numpy(read_audio(SAMPLE)).split(4992):
        events += stream.accept(block.numpy(), 16000)
    return events + stream.finish()


@settings(max_examples=6)
@given(st.integers(0, 99), st.integers(1, 9000))
def test_blocks_of_any_size_give_the_same_to_the_last_bit(seed, most):
    recognizer, options = Recognizer(small_reader(seed)), StreamOptions(partials="decoder", vad=True)
    samples = speech_like(seed, 4)
    whole, cut = recognizer.stream(options), recognizer.stream(options)
    expected, events = whole.accept(samples, RATE) + whole.finish(), []
    sizes = np.random.default_rng(seed).integers(0, most + 1, 2 * len(samples) // most + 9)
    for block in np.split(samples, sizes.cumsum().clip(max=len(samples))):
        events += cut.accept(block, RATE)
    assert [replace(e, end=0) if isinstance(e, Partial) else e for e in events + cut.finish()] == [
        replace(e, end=0) if isinstance(e, Partial) else e for e in expected
    ]


def test_what_is_said_twice_is_written_twice(recognizer):
    """Three words that come again are none that the decoder made up: CTC hears them."""
    sentence = read_audio(SAMPLE)[: int(4.4 * 16000)]
    stream, partials = recognizer.stream(StreamOptions(partials="decoder", endpoint=None)), []
    twice = torch.from_numpy(np.concatenate([sentence, sentence, np.zeros(16000, np.float32)]))
    for block in twice.split(4992):
        partials += [event for event in stream.accept(block.numpy(), 16000) if isinstance(event, Partial)]
    assert error_rate(f"{TEXTS[0]} {TEXTS[0]}", partials[-1].text).wer < 10


@given(st.permutations(["▁ab", "▁ba", "▁abba", "▁bab", "▁aba"]), st.integers(3, 5), st.booleans())
def test_words_that_come_again_are_believed_if_ctc_hears_them_again(words, size, again):
    phrase = words[:size]
    partial = DecoderPartial(small_reader(0))
    partial.model.decoder_pieces = PieceTable(["<unk>", "<s>", "</s>", *words])
    heard = " ".join(phrase * (1 + again)).replace("▁", "")
    path = [step for piece in partial.model.tokenizer.encode(heard) for step in (piece, 0)] + [0] * 40
    best = torch.nn.functional.one_hot(torch.tensor(path), len(partial.model.tokenizer))
    partial._log_probs = [best.float().mul(9).log_softmax(-1)]
    pieces = [3 + word for word in range(size)] * 2
    rule = NoRepeats(partial.model.decoder_pieces, partial._heard_again)
    assert rule.kept(Hypothesis(pieces[:size])) == size
    assert not rule.ends(Hypothesis(pieces[:size]), pieces[0])
    assert rule.kept(Hypothesis(pieces)) == (len(pieces) if again else len(pieces) - 3)
    assert rule.ends(Hypothesis(pieces), pieces[0]) is not again


def test_what_is_stable_is_never_taken_back(events):
    stable, seen = "", 0
    for event in events:
        if isinstance(event, Partial):
            assert event.text.startswith(event.stable)
            assert event.stable.startswith(stable)
            assert event.start <= event.end
            stable, seen = event.stable, seen + bool(event.stable)
        elif isinstance(event, Endpoint):
            stable = ""
    assert seen > 5


def test_partials_come_close_to_what_is_said(events):
    last, texts = "", []
    for event in events:
        if isinstance(event, Partial):
            last = event.text
        elif isinstance(event, Endpoint):
            texts.append(last)
    assert len(texts) == len(TEXTS)
    assert error_rate(" ".join(TEXTS), " ".join(texts)).wer < 6


def test_partials_change_no_final(events, recognizer):
    finals = [e.text for e in events if isinstance(e, Final)]
    assert finals == [final.text for final in recognizer.transcribe(SAMPLE)]


def test_partials_do_not_depend_on_how_the_stream_is_cut(english):
    """In float32: rounding to int8 makes a choice of a hair's breadth of what is 1e-7 otherwise."""
    samples, exact = read_audio(SAMPLE)[: 16000 * 4], Recognizer(english)
    texts = []
    for size in (320, 5000, len(samples)):
        stream = exact.stream(StreamOptions(partials="decoder"))
        cut = [e for block in torch.from_numpy(samples).split(size) for e in stream.accept(block.numpy(), 16000)]
        texts.append([(e.text, e.stable) for e in cut if isinstance(e, Partial)])
    assert texts[0]
    assert texts[0] == texts[1] == texts[2]


@pytest.fixture(scope="module")
def model():
    return small_model()


@given(st.integers(0, 10**6), st.lists(st.integers(1, 30), min_size=2, max_size=6), st.sampled_from(["", "Said so"]))
def test_what_ctc_has_settled_is_never_taken_back(model, seed, sizes, before):
    """Whatever it hears, and after whatever the decoder wrote before the machine became too slow for it."""
    partial, generator = CtcPartial(model, before), torch.Generator().manual_seed(seed)
    for size in sizes:
        text, stable = partial.text, partial.stable
        heard = torch.randn(size, len(model.tokenizer), generator=generator).mul(3).log_softmax(-1)
        partial.update(torch.zeros(1, size, ENCODER.d_model), heard)
        assert partial.text.startswith(text)
        assert partial.text.startswith(partial.stable)
        assert partial.stable.startswith(stable)
        assert len(partial.text[len(partial.stable) :].split()) <= 1


def test_ctc_partials_for_slow_machines(recognizer):
    stream, settled = recognizer.stream(StreamOptions(partials="ctc", second_pass=False)), []
    events = stream.accept(read_audio(SAMPLE)[: 16000 * 4], 16000) + stream.finish()
    for partial in (e for e in events if isinstance(e, Partial)):
        assert partial.text.startswith(partial.stable)
        settled.append(partial.stable)
    (final,) = (e.text for e in events if isinstance(e, Final))
    assert settled[-1] == final.rpartition(" ")[0]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(settled))
