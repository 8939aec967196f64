import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asr.errors import ConfigError, ManifestError
from asr.nn.features import FeatureConfig
from asr.tokenizer import CtcTokenizer
from asr.training.batching import BucketedBatches
from asr.training.config import DataConfig, TokenizerConfig, TrainConfig
from asr.training.data import BatchReader, Recordings
from asr.training.selection import is_held_out, positions_needed, select, target_text
from asr.training.setup import open_manifests, prepare_tokenizer, tokenizer_notes
from tests.training.words import RATE, WORDS, write_corpus

FEATURES = FeatureConfig()
DATA = DataConfig(max_duration=5.0)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"), 12)


@pytest.fixture(scope="module")
def tokenizer():
    return CtcTokenizer.train(list(WORDS), 16)


def make(manifest, tokenizer, seed=1):
    selection = select(open_manifests([str(manifest)]), tokenizer, DATA, FEATURES)
    reader = BatchReader(selection, RATE, FEATURES.hop, DATA.tail_seconds, strict=True)
    return selection, reader, BucketedBatches(selection.durations + DATA.tail_seconds, 8, 2, seed)


def change(manifest, target, **changes):
    """A manifest with some lines changed: `row_3={"text": ""}`."""
    lines = [json.loads(line) for line in manifest.read_text("utf-8").splitlines()]
    for row, values in changes.items():
        lines[int(row.removeprefix("row_"))].update(values)
    target.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return target


def test_a_batch_holds_what_the_manifest_says(corpus, tokenizer):
    _, reader, plan = make(corpus, tokenizer)
    batch = next(Recordings(reader, plan).read(0))
    for row, utterance in enumerate(batch.utterances):
        assert batch.sounding[row] == round(utterance.duration * RATE)
        assert batch.sample_lengths[row] - batch.sounding[row] == DATA.tail_seconds * RATE
        assert not batch.samples[row, batch.sounding[row] :].any()
        pieces = batch.targets[row, : batch.target_lengths[row]].tolist()
        assert tokenizer.decode(pieces) == utterance.text
        assert batch.names[row] == utterance.audio


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10, deadline=None)
@given(first=st.integers(0, 6), epoch=st.integers(0, 3))
def test_an_epoch_can_be_taken_up_in_the_middle(corpus, tokenizer, first, epoch):
    _, reader, plan = make(corpus, tokenizer)
    whole = list(Recordings(reader, plan).read(epoch))
    rest = list(Recordings(reader, plan).read(epoch, first))
    assert [b.number for b in rest] == [b.number for b in whole[first:]]
    for one, other in zip(rest, whole[first:], strict=True):
        assert one.names == other.names
        assert torch.equal(one.samples, other.samples)


def test_workers_change_nothing(corpus, tokenizer):
    _, reader, plan = make(corpus, tokenizer)
    alone = list(Recordings(reader, plan).read(0))
    shared = list(Recordings(reader, plan, workers=2).read(0))
    assert [b.names for b in alone] == [b.names for b in shared]
    assert all(torch.equal(a.samples, b.samples) for a, b in zip(alone, shared, strict=True))


def test_what_cannot_be_trained_on_is_counted_by_reason(corpus, tokenizer):
    changed = change(
        corpus,
        corpus.with_name("changed.jsonl"),
        row_0={"text": ""},
        row_1={"duration": 60.0},
        row_2={"text": "xyz"},
        row_3={"text": " ".join(WORDS * 9)},
        row_4={"text": "  ... "},
    )
    selection, _, _ = make(changed, tokenizer)
    assert selection.left_out == {
        "without text": 2,
        "longer than data.max_duration (5 s)": 1,
        "with characters that the tokenizer does not know": 1,
        "too short for their text": 1,
    }
    assert len(selection) == 7


def test_manifests_come_as_often_as_their_weights_say(corpus, tokenizer):
    selection = select(open_manifests([str(corpus)] * 2), tokenizer, DATA, FEATURES)
    plan = BucketedBatches(selection.durations, 20, 2, 1, np.array([2.0, 0.5])[selection.manifest])
    counts = np.bincount(np.concatenate(plan.epoch(0)), minlength=24)
    assert counts[:12].tolist() == [2] * 12
    assert counts[12:].sum() == 6


@given(st.integers(2, 60), st.floats(0.02, 0.5))
def test_what_is_held_out_is_an_even_share_and_not_trained_on(count, share):
    data = DataConfig(train=("a.jsonl",), held_out=share)
    held = [i for i in range(count) if is_held_out(i, data)]
    assert len(held) == int(count * share)
    gaps = [after - before for before, after in itertools.pairwise(held)]
    assert max(gaps, default=0) - min(gaps, default=0) <= 1
    assert is_held_out(0, DataConfig(held_out=share, dev=("dev.jsonl",))) is None


def test_nothing_left_is_an_error_with_the_reasons(corpus, tokenizer):
    changed = change(corpus, corpus.with_name("none.jsonl"), **{f"row_{i}": {"text": ""} for i in range(12)})
    with pytest.raises(ManifestError, match="no utterance can be used: 12 without text"):
        make(changed, tokenizer)


@pytest.mark.parametrize("content", [b"", b"RIFF no sound at all", None])
def test_audio_that_cannot_be_read_is_skipped_and_named(tmp_path, tokenizer, content):
    manifest = write_corpus(tmp_path, 4)
    broken = tmp_path / "02.wav"
    broken.unlink() if content is None else broken.write_bytes(content)
    _, reader, plan = make(manifest, tokenizer)
    batches = list(Recordings(reader, plan).read(0))
    skipped = [line for batch in batches for line in batch.skipped]
    assert len(skipped) == 1
    assert "02.wav" in skipped[0]
    assert sum(len(batch) for batch in batches) == 3


@pytest.mark.parametrize("duration", [1.0, 4.9])
def test_audio_of_another_length_than_its_manifest_says_is_skipped(corpus, tokenizer, duration):
    changed = change(corpus, corpus.with_name("other.jsonl"), row_5={"duration": duration, "text": "mako"})
    _, reader, plan = make(changed, tokenizer)
    skipped = [line for batch in Recordings(reader, plan).read(0) for line in batch.skipped]
    assert len(skipped) == 1
    assert f"its manifest says {duration:.2f} s" in skipped[0]


def test_a_recording_that_was_cut_off_is_not_trained_on(tmp_path, tokenizer):
    """Its text would be learnt from half of its sound, even where the manifest was made from what is left."""
    manifest = write_corpus(tmp_path, 4)
    data = (tmp_path / "02.wav").read_bytes()
    (tmp_path / "02.wav").write_bytes(data[: len(data) * 3 // 4])
    left = (len(data) * 3 // 4 - 44) / 2 / RATE
    changed = change(manifest, tmp_path / "cut.jsonl", row_2={"duration": left, "text": "mako"})
    _, reader, plan = make(changed, tokenizer)
    skipped = [line for batch in Recordings(reader, plan).read(0) for line in batch.skipped]
    assert len(skipped) == 1
    assert "cut off" in skipped[0]


def test_a_tokenizer_with_fewer_pieces_than_asked_for_is_told(tokenizer):
    asked = TrainConfig(tokenizer=TokenizerConfig(pieces=1024))
    (line,) = tokenizer_notes(asked, tokenizer)
    assert line == f"tokenizer.pieces: 1024 were asked for, the texts give {len(tokenizer) - 1}"
    assert tokenizer_notes(replace(asked, tokenizer=TokenizerConfig(pieces=len(tokenizer) - 1)), tokenizer) == []


def test_dev_texts_of_another_script_are_compared_or_left_out(corpus, tokenizer):
    """Not counted as free of errors, which made the last checkpoint the best one."""
    changed = change(corpus, corpus.with_name("dev.jsonl"), row_0={"text": "Привет мир"})
    manifests = open_manifests([str(changed)])
    dev = select(manifests, tokenizer, DATA, FEATURES, everything=True)
    assert dev.left_out == {"of whose text data.text: normalised leaves nothing": 1}
    lower = select(manifests, tokenizer, DataConfig(max_duration=5.0, text="lower"), FEATURES, everything=True)
    assert lower.left_out == {}


def test_ctc_needs_a_blank_between_equal_pieces():
    assert positions_needed(np.array([4, 4, 5, 5, 5])) == 8
    assert positions_needed(np.array([], np.int32)) == 0


def test_texts_are_written_as_asked():
    text = "It's  5 O'Clock, Zoë!"
    assert target_text(text, DataConfig(text="normalised")) == "it's five o'clock zoe"
    assert target_text(text, DataConfig(text="lower")) == "it's 5 o'clock, zoë!"
    assert target_text(text, DataConfig(text="as_written")) == "It's 5 O'Clock, Zoë!"


def test_a_run_keeps_its_tokenizer(corpus, tmp_path):
    kept, manifests = tmp_path / "pieces.model", open_manifests([str(corpus)])
    first = prepare_tokenizer(TokenizerConfig(pieces=20), manifests, DATA, kept)
    second = prepare_tokenizer(TokenizerConfig(pieces=12), manifests, DATA, kept)
    assert first.model == second.model
    assert kept.read_bytes() == first.model


def test_too_few_pieces_for_the_letters_are_refused(corpus, tmp_path):
    with pytest.raises(ConfigError, match=r"tokenizer\.pieces: 3 must be at least \d+"):
        prepare_tokenizer(TokenizerConfig(pieces=3), open_manifests([str(corpus)]), DATA, tmp_path / "pieces.model")
