"""The measurement of a server with many clients, and under attack."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "benchmarks" / "load.py"


@pytest.mark.slow
def test_a_server_outlives_an_attack_and_remembers_nothing_of_it():
    command = [sys.executable, SCRIPT, "--streams", "1", "--seconds", "8", "--attack", "--", "--streams", "4"]
    done = subprocess.run([*command, "--idle-s", "5"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 streams, 0 refused: words late by" in done.stdout
