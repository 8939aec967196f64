"""Long runs: memory and time of a stream that goes on and on."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "benchmarks" / "soak.py"


@pytest.mark.slow
def test_a_looped_recording_is_written_down_alike_in_each_pass():
    done = subprocess.run([sys.executable, SCRIPT, "--hours", "0.02"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 utterances in each, 0 different" in done.stdout
