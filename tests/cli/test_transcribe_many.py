"""`asr transcribe` on folders: files for each input, resumed after anything, with a report of what failed."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import soundfile

from asr.evaluation.wer import error_rate
from asr.files import locked
from tests.audio.makers import picture, silent_video
from tests.cli.runner import Asr, asr
from tests.recordings import SAMPLE, TEXTS

SAMPLES, RATE = soundfile.read(SAMPLE, dtype="float32")
FAST = ("--second-pass", "off", "--chunk-ms", "640", "--look-ahead-ms", "0", "--threads", "1")


@pytest.fixture(scope="module")
def talks(tmp_path_factory):
    """A tree of four recordings, of which one is broken, and a text that is nobody's business."""
    folder = tmp_path_factory.mktemp("talks")
    (folder / "2024").mkdir()
    soundfile.write(folder / "first.wav", SAMPLES[: 5 * RATE], RATE)
    soundfile.write(folder / "2024" / "second.flac", SAMPLES[6 * RATE : 12 * RATE], RATE)
    soundfile.write(folder / "2024" / "first.ogg", SAMPLES[12 * RATE :], RATE, format="OGG", subtype="VORBIS")
    (folder / "broken.mp3").write_bytes(b"\0" * 1000)
    (folder / "notes.txt").write_text("mine")
    return folder


def test_a_folder_becomes_a_tree_of_texts_and_a_report(talks, tmp_path):
    done = asr("transcribe", talks, "--output-dir", tmp_path, "-f", "txt,srt")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    assert len([line for line in lines if "broken.mp3" in line]) == 1
    assert "3 of 4 files transcribed, 1 failed" in lines[-1]
    for place, text in zip(("first", "2024/second", "2024/first"), TEXTS, strict=True):
        assert error_rate(text, (tmp_path / f"{place}.txt").read_text("utf-8")).wer == 0
        assert "-->" in (tmp_path / f"{place}.srt").read_text("utf-8")
    report = json.loads((tmp_path / "asr-report.json").read_text())
    assert [entry["file"] for entry in report["failed"]] == [str(talks / "broken.mp3")]
    assert (report["files"], report["transcribed"], report["complete"]) == (4, 3, True)

    before = (tmp_path / "first.txt").stat().st_mtime_ns
    (tmp_path / "2024" / "first.srt").unlink()
    again = asr("transcribe", talks, "--output-dir", tmp_path, "-f", "txt,srt", *FAST)
    assert again.returncode == 2
    assert "--resume" in again.stderr
    resumed = asr("transcribe", talks, "--output-dir", tmp_path, "-f", "txt,srt", "--resume", *FAST)
    assert resumed.returncode == 1
    assert "1 of 4 files transcribed, 2 done before, 1 failed" in resumed.stderr.splitlines()[-1]
    assert (tmp_path / "first.txt").stat().st_mtime_ns == before
    assert (tmp_path / "2024" / "first.srt").exists()


def test_beside_leaves_other_files_alone(talks):
    done = asr("transcribe", talks / "first.wav", "--beside", "-f", "vtt", "--report", talks / "report.json", *FAST)
    assert done.returncode == 0
    assert (talks / "first.vtt").read_text().startswith("WEBVTT")
    assert json.loads((talks / "report.json").read_text())["failed"] == []
    assert (talks / "notes.txt").read_text() == "mine"
    assert asr("transcribe", talks / "first.wav", "--beside", "-f", "vtt", "--overwrite", *FAST).returncode == 0


def test_a_folder_that_is_a_file_is_told_before_anything_is_decoded(talks, tmp_path):
    done = asr("transcribe", talks / "first.wav", "-d", talks / "notes.txt", *FAST)
    assert done.returncode == 2
    assert done.stderr == f"asr: --output-dir {talks / 'notes.txt'}: not a folder that can be made: it is a file\n"


def test_a_full_disk_ends_the_job_and_is_what_it_blames(talks, tmp_path):
    shell = 'ulimit -f 0; exec "$0" -m asr transcribe "$1" -d "$2" --second-pass off'
    command = ["bash", "-c", shell, sys.executable, talks / "2024", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "cannot write" in (line := done.stderr.splitlines()[-1])
    assert line.endswith("File too large: make room and go on with --resume")
    assert list(tmp_path.iterdir()) == []


def test_what_a_shell_pipes_in_is_decoded_whatever_the_number_of_jobs(talks, tmp_path):
    shell = 'exec "$0" -m asr transcribe <(cat "$1") "$2" -j 2 -d "$3" --second-pass off'
    command = ["bash", "-c", shell, sys.executable, talks / "first.wav", talks / "2024" / "second.flac", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("*.txt"))) == 2


def test_a_list_on_standard_input_and_one_stream_of_results(talks):
    names = "\n".join(str(talks / name) for name in ("2024/second.flac", "missing.wav", "first.wav"))
    done = asr("transcribe", "--list", "-", "-f", "jsonl", *FAST, stdin=names.encode())
    assert done.returncode == 1
    assert "missing.wav: no such file" in done.stderr
    files = [json.loads(line)["file"] for line in done.stdout.splitlines()]
    assert list(dict.fromkeys(files)) == [str(talks / "2024/second.flac"), str(talks / "first.wav")]


def test_endpoint_options_cut_utterances():
    few = asr("transcribe", SAMPLE, "--pause-ms", "inf", *FAST).stdout.splitlines()
    many = asr("transcribe", SAMPLE, "--longest-s", "3", *FAST).stdout.splitlines()
    assert len(few) == 1
    assert len(many) > 3


def test_channels_of_a_call_are_two_speakers(tmp_path):
    both = soundfile.SoundFile(tmp_path / "call.wav", "w", RATE, 2)
    first = SAMPLES[: 5 * RATE]
    second = SAMPLES[6 * RATE : 11 * RATE]
    both.write(list(zip(first, second, strict=True)))
    both.close()
    done = asr("transcribe", tmp_path / "call.wav", "--channels", "separate")
    lines = sorted(done.stdout.splitlines())
    assert [line[:11] for line in lines] == ["Channel 1: ", "Channel 2: "]
    assert [error_rate(text, line[11:]).wer for text, line in zip(TEXTS, lines, strict=False)] == [0, 0]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-f", "txt,srt"], "--output-dir"),
        (["-f", "txt,doc"], "no format doc"),
        (["-f", ","], "format"),
        (["--resume"], "--output-dir"),
        (["--beside", "--output-dir", "x"], "exclude"),
        (["--beside", "--output", "x"], "--output"),
        (["-", "--list", "-"], "standard input"),
        (["-f", "srt", "other.wav"], "one recording"),
        (["--list", "no-such-list"], "no-such-list"),
        (["-", "--engine", "ray"], "piped"),
    ],
)
def test_wrong_usage(arguments, told, tmp_path):
    done = asr("transcribe", SAMPLE, *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert os.listdir(tmp_path) == []


def broken(folder, count):
    """So many files that cannot be transcribed, of ten kinds."""
    wav = SAMPLE.read_bytes()
    kinds = {
        "empty.wav": b"",
        "text.mp3": b"These are words. " * 100,
        "zeros.ogg": bytes(5000),
        "picture.m4a": picture("png"),
        "silent film.mp4": silent_video(),
        "cut.flac": wav[:40],
        "playlist.mp3": b"#EXTM3U\nhttp://example.org/a.mp3\n",
        "headless.opus": b"OggS" + os.urandom(3000),
        "no index.m4a": b"\0\0\0\x20ftypM4A \0\0\0\0M4A mp42isom\0\0\0\0" + b"\0\0\x10\0mdat" + bytes(4088),
    }
    for number in range(count):
        name, content = list(kinds.items())[number % 10] if number % 10 < len(kinds) else ("link.wav", None)
        path = folder / f"broken {number:03} {name}"
        if content is None:
            path.symlink_to(folder / "nowhere")
        else:
            path.write_bytes(content)


def check_killed_and_resumed(tmp_path, good, bad, kills, seconds):
    """Many short files, some broken; SIGKILL on the way; the last run ends by itself and everything is there once."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for number in range(good):
        start = (number * 977) % (len(SAMPLES) - RATE)
        soundfile.write(folder / f"good {number:04}.wav", SAMPLES[start : start + RATE * 2 // 3], RATE)
    broken(folder, bad)
    command = ["transcribe", folder, "-d", out, "-f", "txt,json", "--resume", "--jobs", "2", *FAST]
    for _ in range(kills):
        process = subprocess.Popen([sys.executable, "-m", "asr", *map(str, command)], stderr=subprocess.DEVNULL)
        before = len(list(out.glob("*.json"))) if out.exists() else 0
        deadline = time.monotonic() + 300
        while len(list(out.glob("good*.json"))) < before + max(1, good // (2 * kills)) and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(1)
        for path in out.glob("*.json"):
            json.loads(path.read_text())
    there = len(list(out.glob("good*.json")))
    assert 0 < there < good
    done = asr(*command)
    assert done.returncode == 1
    assert len(list(out.glob("*.txt"))) == len(list(out.glob("good*.json"))) == good
    durations = [json.loads(path.read_text())["duration"] for path in out.glob("good*.json")]
    assert durations == pytest.approx([2 / 3] * good, 0.01)
    report = json.loads((out / "asr-report.json").read_text())
    assert len(report["failed"]) == bad
    assert all("broken" in entry["file"] for entry in report["failed"])
    assert report["done_before"] + report["transcribed"] == good
    assert report["done_before"] >= there
    assert not list(out.glob(".*"))


def test_killed_and_resumed(tmp_path):
    check_killed_and_resumed(tmp_path, good=40, bad=10, kills=1, seconds=0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_soon_and_says_how_to_go_on(tmp_path, number):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for name in range(40):
        soundfile.write(folder / f"{name:02}.wav", SAMPLES[name * RATE // 4 :][: 3 * RATE // 2], RATE)
    command = ["transcribe", folder, "-d", out, "--jobs", "1", *FAST]
    running = Asr(*command)
    while not list(out.glob("*.txt")):
        assert running.poll() is None
        time.sleep(0.02)
    running.send_signal(number)
    _, told = running.communicate(60)
    done = len(list(out.glob("*.txt")))
    assert running.returncode == 128 + number
    said = re.match(r"asr: stopped: (\d+) of 40 files transcribed.*--resume", told.splitlines()[-1])
    assert done - 1 <= int(said[1]) <= done, "one may have been written that was not counted yet"
    assert 0 < done < 40
    rest = asr(*command, "--resume")
    assert rest.returncode == 0
    assert f"{40 - done} of 40 files transcribed, {done} done before" in rest.stderr


def test_two_processes_that_write_to_one_folder_are_told(talks, tmp_path):
    with locked(tmp_path) as free:
        assert free
        done = asr("transcribe", talks / "first.wav", "-d", tmp_path, *FAST)
    assert done.returncode == 0
    assert "another asr is writing there" in done.stderr
    again = asr("transcribe", talks / "first.wav", "-d", tmp_path, "--overwrite", *FAST)
    assert "another asr" not in again.stderr


@pytest.mark.slow
def test_two_thousand_files_killed_three_times(tmp_path):
    check_killed_and_resumed(tmp_path, good=1950, bad=50, kills=3, seconds=0.2)
