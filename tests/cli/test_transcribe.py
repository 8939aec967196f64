"""`asr transcribe`: the right words, one clear line for each input that has none, the exit status of its contract."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr.evaluation.wer import error_rate
from asr.files import PARTIAL
from tests.cli.runner import asr
from tests.recordings import SAMPLE, TEXTS

SAMPLES, RATE = soundfile.read(SAMPLE, dtype="float32")
SENTENCE = SAMPLES[: round(4.7 * RATE)]


def wer(lines: str) -> float:
    return error_rate(TEXTS[0], lines).wer


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Good and bad files, each with a part of the line that is expected for it (None: words)."""
    folder = tmp_path_factory.mktemp("inputs")
    soundfile.write(folder / "Привет мир 你好 .wav", SENTENCE, RATE)
    soundfile.write(folder / "really-wav.mp3", SENTENCE, RATE, format="WAV")
    soundfile.write(folder / "stereo 44.1k.flac", np.repeat(np.repeat(SENTENCE, 3)[:, None], 2, 1), 3 * RATE)
    soundfile.write(folder / "header.wav", SENTENCE, RATE)
    data = bytearray((folder / "header.wav").read_bytes())
    data[40:44] = (0x7FFFFFF0).to_bytes(4, "little")  # hours more than there is
    (folder / "header.wav").write_bytes(data)
    flac = SAMPLE.read_bytes()
    (folder / "truncated.flac").write_bytes(flac[: len(flac) // 2])
    soundfile.write(folder / "silent.wav", np.zeros(3 * RATE), RATE)
    soundfile.write(folder / "short.wav", SENTENCE[4000 : 4000 + RATE // 100], RATE)
    soundfile.write(folder / "no samples.wav", np.zeros(0), RATE)
    (folder / "empty.wav").write_bytes(b"")
    (folder / "text.wav").write_text("These are words, but nobody says them.\n" * 50)
    (folder / "folder.wav").mkdir()
    return {
        "missing.wav": "missing.wav",
        "empty.wav": "empty.wav",
        "text.wav": "text.wav",
        "folder.wav": "folder",
        "silent.wav": "no words",
        "short.wav": "no words",
        "no samples.wav": "no sound",
        "truncated.flac": "truncated.flac",
        "Привет мир 你好 .wav": None,
        "really-wav.mp3": None,
        "stereo 44.1k.flac": None,
        "header.wav": None,
    }, folder


def test_good_and_bad_files_in_one_call(inputs):
    expected, folder = inputs
    done = asr("transcribe", "--format", "json", *(folder / name for name in expected))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    said = done.stderr.splitlines()
    results = {r["file"]: r for r in json.loads(done.stdout)}
    for name, line in expected.items():
        about = [text for text in said if name in text]
        if line is None:
            assert about in ([], [text for text in about if "header" in text]), about
            assert wer(results[str(folder / name)]["text"]) <= 10
        else:
            assert len(about) == 1, (name, said)
            assert line in about[0]
            assert about[0].startswith("asr: ")
    assert wer(results[str(folder / "truncated.flac")]["text"][: len(TEXTS[0])]) <= 10


def test_text_has_a_line_for_each_utterance_and_headings_for_several_files():
    one = asr("transcribe", SAMPLE)
    assert one.returncode == 0
    assert len(one.stdout.splitlines()) == len(TEXTS)
    assert error_rate(" ".join(TEXTS), one.stdout).wer == 0
    assert one.stderr == ""
    two = asr("transcribe", SAMPLE, SAMPLE)
    heading = f"==> {SAMPLE} <==\n"
    assert two.stdout == f"{heading}{one.stdout}\n{heading}{one.stdout}"


def test_standard_input_output_file_and_json_lines(tmp_path):
    out = tmp_path / "notes.jsonl"
    done = asr("transcribe", "-", "-f", "jsonl", "-o", out, stdin=SAMPLE.read_bytes())
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    events = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [e["type"] for e in events] == ["final", "endpoint"] * len(TEXTS)
    assert error_rate(" ".join(TEXTS), " ".join(e.get("text", "") for e in events)).wer == 0


def test_first_pass_alone_and_other_chunks():
    done = asr(
        "transcribe", SAMPLE, "--second-pass", "off", "--chunk-ms", "160", "--look-ahead-ms", "240", "--threads", "1"
    )
    assert done.returncode == 0
    assert done.stdout
    assert done.stdout == done.stdout.lower()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["transcribe"], "FILE"),
        (["transcribe", SAMPLE, "--format", "xml"], "xml"),
        (["transcribe", SAMPLE, "--chunk-ms", "0"], "chunk-ms"),
        (["transcribe", SAMPLE, "--model", "klingon"], "no model klingon"),
        (["transcribe", SAMPLE, "--model", ""], "the model's name is empty"),
        (["transcribe", SAMPLE, "--device", "cuda:99"], "cuda:99"),
        (["transcribe", SAMPLE, "--output", "no/such/folder/x.txt"], "cannot write"),
        (["transcribe", SAMPLE, "--chunk-ms", "inf"], "chunk-ms"),
        (["transcribe", SAMPLE, "--threads", "99999999999"], "threads"),
        (["transcribe", SAMPLE, "--output", SAMPLE], "is an input"),
        (["live", "--input", SAMPLE, "--output", SAMPLE], "is an input"),
        (["translate"], "translate"),
        (["evaluate", "missing.jsonl"], "missing.jsonl"),
    ],
)
def test_wrong_usage_is_told_in_words_with_status_2(arguments, told):
    done = asr(*arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told_in_one_line():
    done = asr("transcribe", SAMPLE, "--second-pass", "off", "--output", "/dev/full")
    assert done.returncode == 2
    assert done.stderr == "asr: cannot write /dev/full: No space left on device\n"


def test_what_cannot_be_written_leaves_the_earlier_output_alone(tmp_path):
    """Neither a disk that takes nothing more nor an input that cannot be read costs what was there."""
    out = tmp_path / "out.txt"
    out.write_text("mine")
    shell = 'ulimit -f 0; exec "$0" -m asr transcribe "$1" --second-pass off -o "$2"'
    full = subprocess.run(["bash", "-c", shell, sys.executable, SAMPLE, out], capture_output=True, text=True)
    assert (full.returncode, full.stderr) == (2, f"asr: cannot write {out}: File too large\n")
    assert asr("transcribe", tmp_path / "missing.wav", "-o", out).returncode == 2
    assert asr("transcribe", tmp_path / "missing.wav", "gone.wav", "-o", out).returncode == 2
    assert out.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_a_name_that_is_no_text_is_escaped_in_json(tmp_path):
    name = os.fsencode(tmp_path) + b"/caf\xe9.wav"
    shutil.copy(SAMPLE, name)
    done = asr("transcribe", os.fsdecode(name), "-f", "json", "-o", tmp_path / "out.json", "--second-pass", "off")
    assert (done.returncode, done.stderr) == (0, "")
    (result,) = json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert os.fsencode(result["file"]) == name


@pytest.mark.parametrize("command", [["transcribe"], ["live", "--input"]])
def test_where_nothing_is_heard_that_is_said_with_status_2(command, inputs):
    _, folder = inputs
    silent, empty = asr(*command, folder / "silent.wav"), asr(*command, "-", stdin=b"")
    assert (silent.returncode, silent.stderr) == (2, f"asr: {folder / 'silent.wav'}: no words heard in 3.0 s\n")
    assert (empty.returncode, empty.stderr) == (2, "asr: standard input: empty (0 bytes)\n")


def test_ctrl_c_keeps_what_was_said_so_far(tmp_path):
    out = tmp_path / "out.jsonl"
    command = [sys.executable, "-m", "asr", "transcribe", "-", "-f", "jsonl", "-o", str(out), "--second-pass", "off"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        process.stdin.write(SAMPLE.read_bytes())
        process.stdin.flush()
        while not any(path.name.endswith(PARTIAL) and path.stat().st_size for path in tmp_path.iterdir()):
            assert process.poll() is None
            time.sleep(0.1)
        assert not out.exists()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert any(json.loads(line).get("text") for line in out.read_text("utf-8").splitlines())


def test_a_reader_that_leaves_is_no_error_message():
    command = [sys.executable, "-m", "asr", "transcribe", str(SAMPLE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


def test_help_names_the_commands_quickly():
    done = asr("--help")
    assert done.returncode == 0
    assert all(command in done.stdout for command in ("transcribe", "evaluate", "train"))
    imported = subprocess.run(
        [sys.executable, "-c", "import sys, asr.cli; print([m for m in ('torch', 'numpy', 'av') if m in sys.modules])"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert imported.stdout.strip() == "[]"


def test_names_with_control_characters_do_not_reach_the_terminal(tmp_path):
    """Neither in headings nor in messages, nor in the display of what is heard."""
    good, bad = tmp_path / "a\x1b[31mb\u202ec.wav", tmp_path / "d\x1b[2Je.wav"
    soundfile.write(good, np.zeros(16000, np.float32), 16000)
    bad.write_bytes(bytes(100))
    for command in (("transcribe", good, bad), ("transcribe", good), ("classify", good, bad), ("live", "--input", bad)):
        done = asr(*command)
        said = done.stdout + done.stderr
        assert done.returncode in (0, 1, 2)
        assert all(character.isprintable() or character == "\n" for character in said), said


@pytest.mark.parametrize("line", ["( => x", "no arrow"])
def test_a_bad_replacement_is_told_in_one_line_with_its_number(tmp_path, line):
    (tmp_path / "list.txt").write_text(f"# names\n\na => b\n{line}\n")
    done = asr("transcribe", SAMPLE, "--replacements", tmp_path / "list.txt")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert f"{tmp_path}/list.txt, line 4: replacement" in done.stderr


def test_words_are_written_as_wanted(tmp_path):
    (tmp_path / "list.txt").write_text(r"\btrains? => tram" "\n")
    done = asr("transcribe", SAMPLE, "--plain", "--numbers", "words", "--replacements", tmp_path / "list.txt")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "the tram are running on time and the weather is fine"
