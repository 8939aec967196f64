"""The whole model from samples to tokens: one forward for every way to cut a stream; saving and loading."""

import json
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.errors import ModelError
from asr.nn.features import scale_frames
from asr.nn.speech_model import CONFIG, ENCODER, SpeechModel
from asr.search.ctc import ctc_greedy
from tests.small import cuts, small_model

MODEL = small_model()


def sound(seed: int, samples: int, batch: int = 1) -> torch.Tensor:
    """Noise whose level wanders, as in speech."""
    g = torch.Generator().manual_seed(seed)
    envelope = torch.nn.functional.interpolate(torch.rand(batch, 1, samples // 3000 + 2, generator=g) ** 3, samples)[
        :, 0
    ]
    return torch.randn(batch, samples, generator=g) * envelope * 0.2


def stream(x, pieces, **options):
    state, out = MODEL.start(x.shape[0], **options), []
    for piece in x.split(pieces, 1):
        y, state = MODEL(piece, state)
        out.append(y.log_probs)
    y, state = MODEL(x[:, :0], state, final=True)
    return torch.cat([*out, y.log_probs], 1), state


@settings(max_examples=25)
@given(st.data(), st.integers(0, 99), st.integers(400, 48000), st.integers(1, 15), st.integers(0, 15), st.booleans())
def test_tokens_do_not_depend_on_how_the_stream_is_cut(data, seed, samples, chunk, look_ahead, follow):
    """Pieces of 1 sample to 3 s; with a known and with a followed level."""
    x, options = sound(seed, samples, 2), {"chunk": chunk, "look_ahead": look_ahead, "gain": None if follow else 3.0}
    whole, _ = stream(x, [samples], **options)
    cut, _ = stream(x, cuts(data.draw, samples, data.draw(st.sampled_from([500, 5000, 48000]))), **options)
    torch.testing.assert_close(cut, whole, atol=1e-4, rtol=0)
    for row in range(2):
        assert ctc_greedy(cut[row]) == ctc_greedy(whole[row])
    if not follow:
        offline = MODEL.encoder.encode(scale_frames(MODEL.features(x)[0], 3.0), chunk=chunk, look_ahead=look_ahead)
        torch.testing.assert_close(cut, offline.log_probs, atol=1e-4, rtol=0)


def test_one_sample_at_a_time():
    x = sound(1, 1500)
    torch.testing.assert_close(
        stream(x, [1] * 1500, chunk=1, look_ahead=1)[0], stream(x, [1500], chunk=1, look_ahead=1)[0], atol=1e-4, rtol=0
    )


@settings(max_examples=15)
@given(st.integers(0, 99), st.integers(1, 8), st.integers(0, 8))
def test_the_future_never_changes_what_has_been_said(seed, chunk, look_ahead):
    """What is emitted by the time `at` is final: it is the same whatever comes later."""
    x, other = sound(seed, 24000), sound(seed + 1, 24000)
    at = 12000
    state = MODEL.start(chunk=chunk, look_ahead=look_ahead)
    said = MODEL(x[:, :at], state)[0].log_probs
    for future in (x, other):
        whole, _ = stream(torch.cat([x[:, :at], future[:, at:]], 1), [24000], chunk=chunk, look_ahead=look_ahead)
        torch.testing.assert_close(whole[:, : said.shape[1]], said, atol=1e-4, rtol=0)
    assert said.shape[1] >= (at // 384 - look_ahead) // chunk * chunk


def test_batch_mates_change_nothing():
    x = sound(2, 16000, 3)
    together, _ = stream(x, [16000], chunk=5, look_ahead=4)
    for row in range(3):
        torch.testing.assert_close(
            together[row], stream(x[row : row + 1], [16000], chunk=5, look_ahead=4)[0][0], atol=1e-4, rtol=0
        )


def test_a_reset_row_is_fresh():
    x, y = sound(3, 384 * 20, 2), sound(4, 384 * 20, 2)
    _, state = stream(x, [384 * 20], chunk=5, look_ahead=4)
    state.reset([1], MODEL.features.history)
    again, _ = MODEL(y, state, final=True)
    fresh, _ = MODEL(y[1:], MODEL.start(chunk=5, look_ahead=4), final=True)
    torch.testing.assert_close(again.log_probs[1:], fresh.log_probs, atol=1e-4, rtol=0)


def test_the_followed_level_makes_quiet_and_loud_speech_alike():
    x = sound(5, 64000)
    loud, _ = stream(x, [64000], chunk=13, look_ahead=13)
    quiet, _ = stream(x * 0.02, [64000], chunk=13, look_ahead=13)
    torch.testing.assert_close(quiet, loud, atol=5e-2, rtol=0)


def test_bad_sizes_are_refused():
    for wrong in ({"chunk": 0}, {"look_ahead": -1}):
        with pytest.raises(ValueError, match="must be at least"):
            MODEL.start(**wrong)


@pytest.mark.parametrize("int8", [False, True])
def test_a_saved_model_is_the_same_model(tmp_path, int8):
    MODEL.save(tmp_path, int8=int8)
    loaded = SpeechModel.load(tmp_path)
    assert loaded.config == MODEL.config
    assert loaded.tokenizer.encode("abba") == MODEL.tokenizer.encode("abba")
    x = sound(6, 8000)
    expected, got = (m(x, m.start(gain=1.0), final=True)[0].log_probs for m in (MODEL, loaded))
    torch.testing.assert_close(got, expected, atol=0.3 if int8 else 1e-5, rtol=0)


def test_broken_models_are_told_in_one_line(tmp_path):
    with pytest.raises(ModelError, match=r"no model nowhere.*en"):
        SpeechModel.load("nowhere")
    MODEL.save(tmp_path)
    weights = (tmp_path / ENCODER).read_bytes()
    (tmp_path / ENCODER).write_bytes(weights[:1000])
    with pytest.raises(ModelError, match="not a complete safetensors"):
        SpeechModel.load(tmp_path)
    (tmp_path / ENCODER).write_bytes(weights)
    config = json.loads((tmp_path / CONFIG).read_text())
    config["encoder"]["d_model"] = 64
    (tmp_path / CONFIG).write_text(json.dumps(config))
    with pytest.raises(ModelError, match="do not fit"):
        SpeechModel.load(tmp_path)
    config["encoder"]["colour"] = 1
    (tmp_path / CONFIG).write_text(json.dumps(config))
    with pytest.raises(ModelError, match="colour"):
        SpeechModel.load(tmp_path)


def test_loading_does_not_import_a_compiler():
    """It would take as long as all the rest of loading."""
    code = "import sys; from asr import Recognizer; Recognizer.load(); print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
