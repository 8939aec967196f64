"""scripts/benchmarks/compare_peers.py: error rates by latency are those of streams."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from asr.evaluation.wer import ErrorRate, error_rate
from asr.manifest import Manifest
from asr.nn.features import level_gain
from asr.nn.speech_model import SpeechModel
from asr.search.ctc import ctc_greedy

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts/benchmarks/compare_peers.py"
RATE = 16000


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    """The sample as a whole and its first sentence: a batch with padding."""
    import soundfile

    folder = tmp_path_factory.mktemp("corpus")
    samples, rate = soundfile.read(ROOT / "tests" / "data" / "sample.flac", dtype="float32")
    text = (ROOT / "tests" / "data" / "sample.txt").read_text()
    spoken = [("all.wav", samples, text), ("first.wav", samples[: 5 * rate], text.splitlines()[0])]
    with open(folder / "set.jsonl", "w") as lines:
        for name, wave, text in spoken:
            soundfile.write(folder / name, wave, rate)
            entry = {"audio_filepath": name, "duration": len(wave) / rate, "text": text}
            lines.write(json.dumps(entry) + "\n")
    return folder / "set.jsonl"


def test_error_rates_are_those_of_streams(manifest, tmp_path):
    result = tmp_path / "result.json"
    command = [sys.executable, SCRIPT, manifest, "--peers", "ctc,streamed:full", "--json", result]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "| set | ctc | streamed:full |" in done.stdout
    rates = json.loads(result.read_text())[0]
    assert rates["streamed:full"]["strict"] < 5
    model, errors = SpeechModel.load("en"), ErrorRate()
    for utterance in (corpus := Manifest(manifest)):
        sound = torch.from_numpy(corpus.read_audio(utterance, RATE))[None]
        state = model.start(chunk=13, look_ahead=13, gain=level_gain(sound.square().mean(1)))
        with torch.inference_mode():
            output, _ = model(torch.nn.functional.pad(sound, (0, RATE // 4)), state, final=True)
        errors += error_rate(utterance.text, model.tokenizer.decode(ctc_greedy(output.log_probs[0])))
    assert rates["ctc"]["strict"] == pytest.approx(errors.wer)


@pytest.mark.parametrize("peer", ["nobody", "finals:320+320", "ctc:fast"])
def test_what_is_no_peer_is_said_in_one_line(monkeypatch, peer):
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "set.jsonl", "--peers", peer])
    with pytest.raises(
        SystemExit, match=r"^compare_peers: --peers: .*is no mode|^compare_peers: --peers: no such peer"
    ):
        runpy.run_path(str(SCRIPT), run_name="__main__")
