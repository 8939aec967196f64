"""Long runs: memory and time of a stream that goes on and on."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "soak.py"


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--hours", "0.5"], ["--hours", "0.25", "--second-pass"]])
def test_memory_and_time_stay_flat_and_the_past_is_forgotten(options):
    done = subprocess.run([sys.executable, SCRIPT, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the same" in done.stdout
