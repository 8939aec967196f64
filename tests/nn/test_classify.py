"""Words are told by the stretches of speech that hold them; the built-in classifier knows where there are none."""

import json

import pytest
import torch

from asr.audio.files import read_audio
from asr.errors import ModelError
from asr.nn.commands import CommandClassifier, cut
from asr.nn.features import SILENCE
from asr.nn.gate import SpeechGate
from asr.nn.vit import VisionTransformer, ViTConfig
from asr.nn.vit_weights import save_vit
from tests.cli.runner import asr
from tests.recordings import SAMPLE
from tests.small import randomise

SIZES = ViTConfig((60, 48), (60, 8), 1, d_model=16, heads=2, inner=24, layers=1, classes=3)


@pytest.fixture(scope="module")
def classifier() -> CommandClassifier:
    return CommandClassifier.load()


def speech() -> torch.Tensor:
    return torch.from_numpy(read_audio(SAMPLE, 16000))


@pytest.mark.parametrize(("middle", "size"), [(0, 4), (1, 4), (5, 4), (9, 4), (5, 30), (30, 4), (-20, 4)])
def test_a_window_is_where_it_should_be_and_silent_outside(middle, size):
    frames = torch.arange(10.0)[:, None].expand(-1, 2)
    window = cut(frames, middle, size)
    expected = [float(t) if 0 <= t < 10 else SILENCE for t in range(middle - size // 2, middle - size // 2 + size)]
    assert window[:, 0].tolist() == expected


def test_sentences_and_noise_are_none_of_the_words(classifier):
    sentences = classifier.classify(speech())
    assert [v.label for v in sentences] == ["other"] * 3
    assert sentences[0].end - sentences[0].start > 4, "a sentence is one stretch, however many windows it takes"
    g = torch.Generator().manual_seed(0)
    assert all(v.label == "other" for v in classifier.classify(0.1 * torch.randn(48000, generator=g)))
    assert classifier.classify(torch.zeros(32000)) == []


def test_stretches_are_in_order_fit_the_window_and_lie_in_the_recording(classifier):
    samples = speech()
    verdicts = classifier.classify(samples)
    assert verdicts
    edges = [edge for v in verdicts for edge in (v.start, v.end)]
    assert edges == sorted(edges)
    assert edges[-1] <= len(samples) / 16000
    for verdict in verdicts:
        if verdict.label != "other":
            assert verdict.end - verdict.start <= classifier.window * 0.008 + 0.024
        assert sum(verdict.probabilities.values()) == pytest.approx(1, abs=1e-3)
        assert list(verdict.probabilities.values()) == sorted(verdict.probabilities.values(), reverse=True)


def test_level_does_not_matter(classifier):
    samples = speech()[: 5 * 16000]
    loud, soft = (classifier.classify(samples * gain) for gain in (1.0, 0.05))
    assert [v.label for v in loud] == [v.label for v in soft]


def test_very_short_sounds_are_no_error(classifier):
    for size in (0, 1, 127, 128, 1000):
        assert classifier.classify(torch.zeros(size)) == []


def test_labels_must_name_the_classes(tmp_path):
    save_vit(randomise(VisionTransformer(SIZES), 0), tmp_path, {"labels": ["yes", "no"]})
    with pytest.raises(ModelError, match="labels do not name the 3 classes"):
        CommandClassifier.load(tmp_path, SpeechGate.load())


def test_classify_says_what_each_stretch_is(tmp_path):
    done = asr("classify", "--json", SAMPLE, tmp_path / "gone.wav")
    assert done.returncode == 1
    assert "gone.wav" in done.stderr
    assert "Traceback" not in done.stderr
    (line,) = done.stdout.splitlines()
    stretches = json.loads(line)["stretches"]
    assert stretches
    assert all({"other", "seven", "computer"} <= s["probabilities"].keys() for s in stretches)


def test_classify_writes_lines_for_people(tmp_path):
    done = asr("classify", "--top", 1, SAMPLE)
    assert done.returncode == 0
    assert all(" s  other " in line and line.endswith(" %") for line in done.stdout.splitlines())
