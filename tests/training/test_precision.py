import pytest
import torch

from asr.training import precision
from asr.training.precision import bf16_speed, use_bf16

CPU = torch.device("cpu")


def test_what_is_asked_for_is_done():
    assert use_bf16("bf16", CPU)[0]
    assert not use_bf16("float32", CPU)[0]


@pytest.mark.parametrize(("speed", "chosen"), [(None, False), (0.02, False), (1.1, False), (5.0, True)])
def test_bf16_is_chosen_only_where_it_is_faster_and_the_reason_is_told(monkeypatch, speed, chosen):
    monkeypatch.setattr(precision, "bf16_speed", lambda device: speed)
    bf16, why = use_bf16("auto", CPU)
    assert bf16 == chosen
    assert why.startswith("bf16" if chosen else "float32")


def test_this_processor_is_measured():
    speed = bf16_speed(CPU)
    assert speed is None or 0.001 < speed < 100
