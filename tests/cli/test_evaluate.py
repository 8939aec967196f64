"""`asr evaluate`: error rates of a manifest, in words and as JSON."""

import json

import pytest
import soundfile

from tests.cli.runner import asr
from tests.recordings import SAMPLE, TEXTS


@pytest.fixture
def manifest(tmp_path):
    """The sample, a copy with one wrong word in its reference, and a file that is not there."""
    samples, rate = soundfile.read(SAMPLE)
    soundfile.write(tmp_path / "a.flac", samples, rate)
    text = " ".join(TEXTS)
    lines = [
        {"audio_filepath": "a.flac", "duration": len(samples) / rate, "text": text},
        {"audio_filepath": "a.flac", "duration": len(samples) / rate, "text": text.replace("trains", "buses")},
        {"audio_filepath": "gone.flac", "duration": 1.0, "text": "gone"},
        {"audio_filepath": "a.flac", "duration": 1.0, "text": "Привет"},
        {"audio_filepath": "a.flac", "duration": 1.0, "text": "beyond", "offset": 1000.0},
    ]
    path = tmp_path / "set.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_totals_files_and_failures(manifest, tmp_path):
    done = asr("evaluate", manifest, "--json", tmp_path / "out.json")
    assert done.returncode == 1
    assert "gone.flac" in done.stderr
    assert "nothing is left to compare of its text 'Привет'" in done.stderr
    assert "begins at 1000.00 s" in done.stderr
    assert "Traceback" not in done.stderr
    result = json.loads((tmp_path / "out.json").read_text())
    assert len(result["failures"]) == 3
    words = len(" ".join(TEXTS).split())
    assert result["words"] == 2 * words
    assert (result["substitutions"], result["deletions"], result["insertions"]) == (1, 0, 0)
    assert result["wer"] == pytest.approx(100 / (2 * words), abs=0.01)
    assert result["audio_seconds"] == pytest.approx(2 * soundfile.info(SAMPLE).duration, abs=0.01)
    assert result["rtf"] > 0
    assert result["cer"] > 0
    assert len(result["files"]) == 2
    assert result["text"] == "normalised"  # as data.text: the form in which the English model learnt to write
    assert f"normalised WER {result['normalised']['wer']:.2f} %" in done.stdout.splitlines()[-3]
    assert f"WER {result['wer']:.2f} %" in done.stdout.splitlines()[-3]
    assert len(done.stdout.splitlines()) == 3


def test_damage_is_told_and_counted(tmp_path):
    samples, rate = soundfile.read(SAMPLE)
    soundfile.write(tmp_path / "a.wav", samples[: 5 * rate], rate)
    data = (tmp_path / "a.wav").read_bytes()
    (tmp_path / "a.wav").write_bytes(data[: len(data) // 2])
    line = {"audio_filepath": "a.wav", "duration": 2.5, "text": TEXTS[0]}
    (tmp_path / "set.jsonl").write_text(json.dumps(line))
    done = asr("evaluate", tmp_path / "set.jsonl", "--stage", "ctc", "--json", tmp_path / "out.json")
    assert done.returncode == 0
    assert "cut off" in done.stderr
    assert ", 1 damaged or misstated)" in done.stdout
    assert len(json.loads((tmp_path / "out.json").read_text())["warnings"]) == 1


def test_stage_ctc_scores_the_first_pass(manifest, tmp_path):
    options = ("--limit", "1", "--utterances", "--stage", "ctc", "--quiet", "--json", tmp_path / "out.json")
    done = asr("evaluate", manifest, *options)
    assert done.returncode == 0
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["options"]["utterances"] is True
    assert 10 < result["wer"] < 40, "greedy CTC misspells some words"
    assert len(done.stdout.splitlines()) == 1
