"""Long runs: memory and time of a stream that goes on and on."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "benchmarks" / "soak.py"


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--hours", "0.5"], ["--hours", "0.25", "--second-pass"]])
def test_memory_and_time_stay_flat_and_the_past_is_forgotten(options):
    done = subprocess.run([sys.executable, SCRIPT, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the same" in done.stdout


@pytest.mark.slow
def test_a_looped_recording_is_written_down_alike_in_each_pass():
    sample = Path(__file__).parents[1] / "data" / "sample.flac"
    options = ["--loop", sample, "--hours", "0.02"]
    done = subprocess.run([sys.executable, SCRIPT, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 utterances in each, 0 different" in done.stdout
