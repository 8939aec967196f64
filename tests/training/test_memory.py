"""Batches that do not fit into memory."""

import pytest
import torch

from asr.errors import AsrError
from asr.nn.encoder import StreamingEncoder
from asr.training.memory import MemoryLimit, is_out_of_memory
from tests.training.small_runs import prepare

EVERYTHING = (
    "losses.consistency=0.2",
    "losses.intermediate=0.5",
    "losses.intermediate_blocks=[1]",
    "optimiser.accumulate=2",
)


def gradients(trainer):
    """Loss and gradients of two batches that are accumulated."""
    values = []
    for number, indices in enumerate(trainer.batches.plan.epoch(0)[:2]):
        values.append(trainer.forward.backward(trainer.batches.reader[0, number, indices]))
    return values, {name: p.grad for name, p in trainer.model.named_parameters() if p.grad is not None}


def test_a_batch_in_parts_has_the_loss_and_the_gradient_of_the_whole(started, tmp_path, monkeypatch, capsys):
    folder, settings = started
    trainer = prepare(folder, [*settings, *EVERYTHING], str(tmp_path / "run"))
    trainer.model.eval()
    wholes, expected = gradients(trainer)
    trainer.model.zero_grad(set_to_none=True)
    real = StreamingEncoder.encode

    def scarce(self, frames, *arguments, **settings):
        if len(frames) > 2:  # two views of one utterance
            raise torch.OutOfMemoryError("out of memory")
        return real(self, frames, *arguments, **settings)

    monkeypatch.setattr(StreamingEncoder, "encode", scarce)
    parts, found = gradients(trainer)
    for part, whole in zip(parts, wholes, strict=True):
        assert part.value == pytest.approx(whole.value, rel=1e-5)
        assert part.parts == pytest.approx(whole.parts, rel=1e-4)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-5, rtol=1e-3)
    assert "parts from here on, with the same result" in capsys.readouterr().err


def test_what_has_failed_is_remembered_for_batches_as_large():
    said = []
    memory = MemoryLimit(said.append)
    assert memory.parts(100, 8) == 1
    memory.failed(100, 8, 1, 30)
    assert [memory.parts(size, 8) for size in (99, 100, 150, 250)] == [1, 2, 2, 4]
    memory.failed(100, 8, 2, 30)
    assert [memory.parts(size, 8) for size in (49, 50, 99, 100, 10000)] == [1, 2, 2, 4, 8]
    assert memory.parts(10000, 3) == 3
    assert len(said) == 2


def test_an_utterance_that_does_not_fit_alone_ends_the_run():
    with pytest.raises(AsrError, match=r"an utterance of 15\.0 s does not fit .* lower data\.max_duration"):
        MemoryLimit(print).failed(100, 2, 2, 30)


def test_the_processors_lack_of_memory_is_recognised():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert is_out_of_memory(caught.value)
    assert not is_out_of_memory(RuntimeError("shapes do not match"))
