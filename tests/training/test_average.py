import pytest
import torch
from safetensors.torch import load_file

from asr.nn.speech_model import SpeechModel
from asr.training.average import WeightAverage
from tests.training.small_runs import make

AVERAGED = ("optimiser.ema=0.9", "schedule.warmup=1", "schedule.checkpoint_every=2")


def test_the_average_follows_the_weights_and_gives_way_to_them():
    model = torch.nn.Linear(2, 2)
    average = WeightAverage(model, 0.5)
    first = model.weight.detach().clone()
    with torch.no_grad():
        model.weight += 1
    average.update(1)  # the first update keeps 2 / 11
    assert torch.allclose(average.tensors["weight"], first + 9 / 11)
    with average.in_use():
        assert torch.allclose(model.weight, first + 9 / 11)
    assert torch.allclose(model.weight, first + 1)
    average.update(1000)
    assert torch.allclose(average.tensors["weight"], first + 10 / 11)


def test_the_exported_model_is_the_average_and_a_resumed_run_is_the_same(corpus, tmp_path):
    whole = make(corpus, tmp_path / "whole", *AVERAGED, "schedule.steps=4")
    whole.run()
    exported = SpeechModel.load(tmp_path / "whole" / "model").encoder.state_dict()
    for name, tensor in whole.average.tensors.items():
        assert torch.equal(exported[name.removeprefix("encoder.")], tensor)
    assert not torch.equal(exported["ctc.weight"], whole.model.encoder.ctc.weight)
    parts = make(corpus, tmp_path / "parts", *AVERAGED, "schedule.steps=4", "schedule.time_limit=1e-9")
    parts.run()
    assert parts.progress.step < 4
    parts = make(corpus, tmp_path / "parts", *AVERAGED, "schedule.steps=4", resume=True)
    parts.run()
    kept = load_file(tmp_path / "parts" / "checkpoints" / "step-00000004" / "average.safetensors")
    assert all(torch.equal(kept[name], tensor) for name, tensor in whole.average.tensors.items())


@pytest.mark.parametrize("ema", [0, 0.9])
def test_an_average_begins_with_the_weights_of_a_run_that_had_none(corpus, tmp_path, ema):
    make(corpus, tmp_path, "schedule.steps=2", "schedule.warmup=1").run()
    trainer = make(corpus, tmp_path, "schedule.steps=4", f"optimiser.ema={ema}", resume=True)
    assert (trainer.average is not None) == bool(ema)
    if ema:
        assert torch.equal(trainer.average.tensors["encoder.ctc.weight"], trainer.model.encoder.ctc.weight)


def test_weights_in_use_keep_a_share_of_the_start():
    model = torch.nn.Linear(2, 2)
    average = WeightAverage(model, 0, start_share=0.25)
    first = model.weight.detach().clone()
    with torch.no_grad():
        model.weight += 1
    average.update(1)
    with average.in_use():
        assert torch.allclose(model.weight, first + 0.75)
    assert torch.allclose(model.weight, first + 1)
