"""What is drawn is what the models compute."""

import pytest
import torch

from asr.audio.files import read_audio
from asr.errors import ConfigError
from asr.inspection.drawing import draw_text
from asr.inspection.seen import attention_weights, inspect_samples
from asr.nn.features import level_gain, scale_frames
from asr.nn.gate import SpeechGate
from asr.recognition.recognizer import Recognizer


@pytest.fixture(scope="module")
def seen(english):
    samples = torch.from_numpy(read_audio("tests/data/sample.flac", 16000))[16000:64000]
    return inspect_samples(Recognizer(english), SpeechGate.load(), samples, start=1.0, layer=2, head=3)


def test_all_rows_are_as_long_as_the_stretch(seen):
    positions = 48000 // 384
    assert len(seen.speech) == len(seen.posteriors) == len(seen.attention) == positions
    assert seen.frames.shape == (375, 80)
    assert len(seen.pieces) == seen.posteriors.shape[1] - 1
    torch.testing.assert_close(seen.attention.sum(1), torch.ones(positions))
    assert seen.words
    assert all(1.0 <= word.start < word.end <= 4.1 for word in seen.words)


def test_weights_are_those_that_the_block_attends_with(english):
    samples = torch.from_numpy(read_audio("tests/data/sample.flac", 16000))[16000:40000]
    log_power, _ = english.features(samples[None])
    frames = scale_frames(log_power, level_gain(english.features.mean_square(log_power).mean(1)))
    taps = english.encoder.encode(frames, taps=(1, 2)).taps
    block = english.encoder.blocks[1]
    weights = attention_weights(english, taps[0], 2)
    values = block.att.qkv(block.norm_att(taps[0])).chunk(3, -1)[2].unflatten(-1, (8, -1)).transpose(1, 2)
    x = taps[0] + block.att.proj((weights[None] @ values).transpose(1, 2).flatten(2))
    torch.testing.assert_close(x + block.ff(block.norm_ff(x)), taps[1], rtol=0, atol=1e-3)


def test_bias_is_the_learned_one_by_distance(seen, english):
    learned = english.encoder.blocks[1].relative.weight
    middle = seen.bias.shape[1] // 2
    torch.testing.assert_close(seen.bias[:, middle : middle + 16], learned[:, :16])
    torch.testing.assert_close(seen.bias[:, middle - 1], learned[:, 33])
    torch.testing.assert_close(seen.bias[:, -1], learned[:, 31])


@pytest.mark.parametrize("width", [30, 100])
def test_characters_fit_the_terminal(seen, width):
    text = draw_text(seen, width)
    assert max(map(len, text.splitlines())) <= max(width, 80)
    assert "gate" in text
    assert all(word.text in text for word in seen.words)
    hertz = [int(line.split(" Hz")[0]) for line in text.splitlines() if " Hz" in line]
    assert hertz == sorted(hertz, reverse=True)
    assert 0 < hertz[-1] < 200
    assert 6000 < hertz[0] < 8000


def test_layers_and_heads_that_are_not_there_are_refused(english):
    gate, recognizer = SpeechGate.load(), Recognizer(english)
    with pytest.raises(ConfigError, match="layers 1 to 11"):
        inspect_samples(recognizer, gate, torch.zeros(16000), layer=12)
    with pytest.raises(ConfigError, match="heads 1 to 8"):
        inspect_samples(recognizer, gate, torch.zeros(16000), head=9)
    with pytest.raises(ConfigError, match="too short"):
        inspect_samples(recognizer, gate, torch.zeros(300))
