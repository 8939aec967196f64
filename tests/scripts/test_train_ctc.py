"""scripts/recipes/train_ctc.py: the CTC branch learns, and nothing else changes."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from asr.nn.encoder import FULL_CONTEXT, Chunking
from asr.nn.speech_model import SpeechModel
from scripts.recipes.fork_ctc import forked
from scripts.recipes.train_ctc import HIDDEN_SHARE, STRETCHES, Kept, branch, trunk
from tests.small import small_encoder
from tests.training.run_asr import SMALL, logged
from tests.training.small_runs import make
from tests.training.words import write_corpus

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "recipes" / "train_ctc.py"
ENCODER, FORKED = small_encoder(), small_encoder(layers=3, ctc_layers=2, ctc_after=1)
chunks, aheads = st.integers(1, 7), st.integers(0, 9)


def train_ctc(
    folder: Path, *settings: str, more: Sequence[object] = (), batches: int = 2
) -> subprocess.CompletedProcess[str]:
    config = folder / "ctc.yaml"
    config.write_text("data:\n  workers: 0\nchunks:\n  full_context: 0.5\n")
    sets = [part for setting in settings for part in ("--set", setting)]
    command = [sys.executable, SCRIPT, config, "--run", folder / "run", "--batches", str(batches), *sets, *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"), 12)


@pytest.fixture(scope="module")
def start(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    make(corpus, folder / "run", "schedule.warmup=1").model.save(folder / "model")
    return folder / "model"


def branch_alone(corpus: Path, start: Path) -> list[str]:
    """Settings of a short run."""
    return [
        *(s for s in SMALL if not s.startswith("model.")),
        f"data.train=[{corpus}]",
        f"start={start}",
        f"optimiser.frozen_blocks={SpeechModel.load(start).config.encoder.layers}",
        "optimiser.learning_rate=3e-3",
        "schedule.steps=60",
        "schedule.warmup=1",
    ]


def test_only_the_branch_learns_and_kept_batches_are_used_again(corpus, start, tmp_path):
    sizes = SpeechModel.load(start).config.encoder
    settings = [*branch_alone(corpus, start), f"data.dev=[{corpus}]"]
    done = train_ctc(tmp_path, *settings)
    assert done.returncode == 0, done.stderr
    losses = [entry["loss"] for entry in logged(tmp_path / "run")]
    assert len(losses) == 60
    assert sum(losses[-6:]) < 0.8 * sum(losses[:6])
    assert "dev_wer_streaming" in (tmp_path / "run" / "log.jsonl").read_text()
    before = SpeechModel.load(start).encoder.state_dict()
    after = SpeechModel.load(tmp_path / "run" / "model").encoder.state_dict()
    changed = {name for name in before if not torch.allclose(before[name], after[name], atol=1e-3)}
    branch = f"blocks.{sizes.layers}."
    assert changed
    assert all(name.startswith((branch, "norm_ctc.", "ctc.")) for name in changed)
    kept = sorted((tmp_path / "run" / "kept").iterdir())
    assert len(kept) == 2
    made = [file.stat().st_mtime_ns for file in kept]
    assert train_ctc(tmp_path, *settings).returncode == 0
    assert [file.stat().st_mtime_ns for file in kept] == made


@pytest.mark.slow  # the trainer is the one of `asr train`, of which test_resume asks the same
def test_an_interrupted_run_goes_on_with_the_same_losses(corpus, start, tmp_path):
    """Passes of two batches, with dropout and hidden stretches; what is kept is common to both."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    settings = [*branch_alone(corpus, start), "schedule.steps=7", "schedule.decay=constant", "optimiser.ema=0.9"]
    for folder in (whole, parts):
        folder.mkdir()
    assert train_ctc(whole, *settings).returncode == 0
    assert train_ctc(parts, *settings, "schedule.steps=3").returncode == 0
    assert [entry["step"] for entry in logged(parts / "run")] == [1, 2, 3]
    assert train_ctc(parts, *settings, more=["--resume"]).returncode == 0
    assert [entry["loss"] for entry in logged(parts / "run")] == [entry["loss"] for entry in logged(whole / "run")]


@pytest.mark.slow
def test_a_branch_that_leaves_earlier_learns_in_copies_of_the_blocks_above(corpus, start, tmp_path):
    """fork_ctc.py, then training with Muon, two batches a step: what the decoder reads stays as it is."""
    fork = [sys.executable, SCRIPT.parent / "fork_ctc.py", start, tmp_path / "forked", "--after", "1"]
    assert subprocess.run(fork, timeout=120, check=False).returncode == 0
    before = SpeechModel.load(tmp_path / "forked")
    sizes = before.config.encoder
    assert (sizes.fork, sizes.ctc_layers) == (1, sizes.layers)
    frames = torch.randn(1, 60, sizes.mels)
    expected = SpeechModel.load(start).encoder.encode(frames)
    torch.testing.assert_close(before.encoder.encode(frames).log_probs, expected.log_probs, atol=5e-3, rtol=0)
    settings = [*branch_alone(corpus, tmp_path / "forked"), "optimiser.muon=1", "optimiser.accumulate=2"]
    done = train_ctc(tmp_path, *settings)
    assert done.returncode == 0, done.stderr
    losses = [entry["loss"] for entry in logged(tmp_path / "run")]
    assert len(losses) == 60
    assert sum(losses[-6:]) < 0.8 * sum(losses[:6])
    after = SpeechModel.load(tmp_path / "run" / "model").encoder
    torch.testing.assert_close(after.encode(frames).memory, before.encoder.encode(frames).memory, atol=0, rtol=0)
    changed = [
        not torch.equal(one.ff.up.weight, other.ff.up.weight)
        for one, other in zip(before.encoder.blocks, after.blocks, strict=True)
    ]
    assert changed == [False] * sizes.layers + [True] * sizes.ctc_layers


@given(st.integers(0, 99), st.integers(1, 40), chunks, aheads, st.integers(0, 2))
def test_a_branch_that_leaves_earlier_begins_by_giving_what_it_gave(seed, positions, chunk, look_ahead, after):
    torch.manual_seed(seed)
    x, chunking = torch.randn(1, 3 * positions, 80), Chunking(chunk, look_ahead)
    other = forked(ENCODER, after)
    assert len(other.blocks) == len(ENCODER.blocks) + 2 - after
    taps = range(other.config.layers + 1)
    output, before = (encoder.encode(x, chunking=chunking, taps=taps) for encoder in (other, ENCODER))
    torch.testing.assert_close(output.memory, before.memory, atol=1e-5, rtol=0)
    torch.testing.assert_close(output.log_probs, before.log_probs, atol=1e-5, rtol=0)
    torch.testing.assert_close(output.taps, before.taps, atol=1e-5, rtol=0)


def test_a_branch_cannot_leave_after_blocks_that_it_does_not_pass():
    with pytest.raises(ValueError, match="after block 1: it can leave earlier, not after 2"):
        forked(FORKED, 2)


@pytest.mark.parametrize("encoder", [ENCODER, FORKED], ids=["in line", "forked"])
@given(st.lists(st.integers(1, 30), min_size=1, max_size=3), st.integers(0, 99), chunks, aheads, st.booleans())
def test_trunk_and_branch_are_the_encoder_in_two_parts(encoder, sizes, seed, chunk, look_ahead, full):
    torch.manual_seed(seed)
    x, lengths = torch.randn(len(sizes), 3 * max(sizes), 80), torch.tensor([3 * n for n in sizes])
    chunking = FULL_CONTEXT if full else Chunking(chunk, look_ahead)
    whole = encoder.encode(x, lengths, chunking)
    stream, positions = trunk(encoder, x, lengths, chunking)
    assert positions.tolist() == sizes
    parts = branch(encoder, stream, positions, max(sizes), chunking)
    torch.testing.assert_close(parts, whole.log_probs, atol=0, rtol=0)


def test_a_fork_after_a_block_that_is_not_there_is_told_in_one_line(start, tmp_path):
    fork = [sys.executable, SCRIPT.parent / "fork_ctc.py", start, tmp_path / "forked", "--after", "99"]
    done = subprocess.run(fork, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("fork_ctc: the CTC branch leaves after block ")
    assert done.stderr.count("\n") == 1


def test_noise_is_to_be_silent_about(corpus, start, tmp_path):
    """Taught nothing but silence over noise, the branch is sure of the blank there."""
    done = train_ctc(tmp_path, *branch_alone(corpus, start), more=["--noise", corpus])
    assert done.returncode == 0, done.stderr
    kept = Kept.load(tmp_path / "run" / "kept" / "noise-000000.safetensors")
    assert kept.target_lengths.tolist() == [0] * len(kept.lengths)
    before, after = (float(kept.loss(SpeechModel.load(path), hide=0)) for path in (start, tmp_path / "run" / "model"))
    assert after < 0.5 * before


@pytest.mark.slow
def test_what_other_runs_have_kept_is_trained_on(corpus, start, tmp_path):
    """One run keeps only; another, which keeps less, trains on both, and a run that kept nothing is named."""
    settings, folders = branch_alone(corpus, start), [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    assert train_ctc(folders[0], *settings, more=["--keep-only", "--noise", corpus]).returncode == 0
    kept = {file.name for file in (folders[0] / "run" / "kept").iterdir()}
    assert {"000000.safetensors", "000001.safetensors", "noise-000000.safetensors"} <= kept
    assert not (folders[0] / "run" / "model").exists()
    also = ["--also", folders[0] / "run"]
    done = train_ctc(folders[1], *settings, "schedule.steps=4", more=also, batches=1)
    assert done.returncode == 0, done.stderr
    assert "3 batches of speech, 1 of noise" in done.stderr
    refused = train_ctc(folders[1], *settings, more=["--also", corpus.parent])
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"train_ctc: --also {corpus.parent}: nothing is kept there")


@given(
    batch=st.integers(1, 3),
    chunk=st.integers(1, 20),
    look_ahead=st.integers(0, 20),
    size=st.integers(21, 200),
    width=st.integers(1, 30),
)
def test_a_position_is_hidden_in_all_chunks_that_see_it_or_in_none(batch, chunk, look_ahead, size, width):
    chunks = -(-size // chunk)
    lengths = torch.full((batch,), size)
    stream = torch.zeros(batch * chunks, chunk + look_ahead, 1)
    kept = Kept(stream, lengths, lengths, lengths, torch.tensor([size, chunk, look_ahead, 250]))
    hidden = kept.hidden(width).unflatten(0, (batch, chunks))
    for row in hidden:
        seen: dict[int, set[bool]] = {}
        for number, window in enumerate(row.tolist()):
            for offset, is_hidden in enumerate(window):
                seen.setdefault(number * chunk + offset, set()).add(is_hidden)
        assert all(len(answers) == 1 for answers in seen.values())
        assert sum(answers == {True} for answers in seen.values()) <= STRETCHES * min(width, HIDDEN_SHARE * size)


def test_blocks_that_are_not_frozen_are_told_in_one_line(corpus, start, tmp_path):
    done = train_ctc(tmp_path, f"data.train=[{corpus}]", f"start={start}")
    assert done.returncode == 1
    assert done.stderr.startswith("train_ctc: optimiser.frozen_blocks: ")
    assert done.stderr.count("\n") == 1
