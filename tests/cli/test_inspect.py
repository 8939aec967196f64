"""`asr inspect`: pictures, characters and one-line errors."""

import pytest

from tests.cli.runner import asr
from tests.recordings import SAMPLE, TEXTS


def test_terminal_shows_words_spectrogram_and_gate():
    done = asr("inspect", SAMPLE, "--seconds", 5, "--layer", 3)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    words = " ".join(TEXTS).split()[:3]
    assert all(any(word.strip(".,").lower() in line.lower() for line in lines) for word in words)
    (gate,) = (line for line in lines if line.startswith("gate"))
    assert "█" in gate
    assert max(map(len, lines)) <= 120
    assert "layer 3, mean of the heads" in done.stdout


def test_picture_is_written(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "seen.png"
    done = asr("inspect", SAMPLE, "-o", path, "--start", 1, "--seconds", 2, "--head", 2)
    assert done.returncode == 0, done.stderr
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--layer", 99], "layers 1 to 11"),
        (["--head", 99], "heads 1 to 8"),
        (["--start", 1000], "no sound after 1000 s"),
        (["-o", "seen.gibberish"], "seen.gibberish"),
    ],
)
def test_what_cannot_be_drawn_is_told_in_one_line(options, reason, tmp_path):
    if "-o" in options:
        pytest.importorskip("matplotlib")
    done = asr("inspect", SAMPLE, "--seconds", 1, *options, cwd=tmp_path)
    assert done.returncode == 2
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1
