import builtins

import pytest

from asr.errors import AsrError
from asr.training.board import Board
from asr.training.dev import DevResult
from asr.training.progress import StepReport


def test_curves_and_examples_are_written(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = Board(tmp_path)
    board.step(StepReport(3, 0, 1.5, None, 1e-3, 20.0, 13, 7, {"ctc": 1.5}))
    board.dev(3, DevResult(50.0, 60.0, examples=({"said": "a b", "CTC": "a | c"},)))
    board.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, e.value) for e in events.Scalars("train/loss")] == [(3, 1.5)]
    assert events.Scalars("dev/dev_wer_streaming")[0].value == 60.0
    assert "train/gradient_norm" not in events.Tags()["scalars"]
    (example,) = events.Tensors("dev/examples/text_summary")
    assert b"| a b | a / c |" in example.tensor_proto.string_val[0]


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **named):
        if name.startswith(("tensorboard", "torch.utils.tensorboard")):
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(AsrError, match="--tensorboard: the package is missing: pip install tensorboard"):
        Board(tmp_path)
