"""`asr live`: a recording played into a real sound path, recordings as input, and everything that can be wrong."""

import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from asr.audio.microphone import Statistics
from asr.evaluation.wer import error_rate
from asr.events import Endpoint, Final, Word
from asr.recognition.session import listen
from tests.cli.runner import Asr, asr
from tests.recordings import SAMPLE, TEXTS
from tests.sound_server import SoundServer, guarded


@pytest.fixture(scope="module")
def transcript() -> str:
    return asr("transcribe", SAMPLE).stdout


@pytest.fixture(scope="module")
def server():
    server = SoundServer()
    yield server
    server.close()


def read_until(pipe, part: str) -> str:
    """Lines of a pipe up to the one with that part."""
    lines = ""
    while part not in lines:
        line = pipe.readline()
        assert line, f"ended before {part!r}: {lines}"
        lines += line
    return lines


def start(*arguments: object, **options) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "asr", *map(str, arguments)]
    return guarded(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment, **options))


def distance(expected: str, text: str) -> int:
    rate = error_rate(expected.replace("\n", " "), text.replace("\n", " "))
    return round(rate.wer / 100 * len(expected.split()))


def test_what_is_played_into_a_room_is_written_down(server, transcript, tmp_path):
    notes, take = tmp_path / "notes.txt", tmp_path / "take.flac"
    notes.write_text("From yesterday.\n")
    options = ("--input-device", "speech", "--format", "jsonl", "--output", notes, "--save-audio", take)
    live = server.start("-m", "asr", "live", *options)
    read_until(live.stderr, "listening to speech")
    assert server.play(SAMPLE).wait() == 0
    deadline = time.monotonic() + 10
    while notes.read_text().count("\n") < 4 and time.monotonic() < deadline:
        time.sleep(0.1)  # finals are in the file as soon as they are final
    live.send_signal(signal.SIGINT)
    out, err = live.communicate(timeout=20)
    assert live.returncode == 0, err
    assert "Traceback" not in err
    assert "dropped" not in err

    events = [json.loads(line) for line in out.splitlines()]
    finals = [event for event in events if event["type"] == "final"]
    assert len(finals) == 3
    assert distance(transcript, " ".join(final["text"] for final in finals)) <= 2
    assert notes.read_text() == "\n".join(["From yesterday.", *(final["text"] for final in finals), ""])
    words = [word for final in finals for word in final["words"]]
    edges = [edge for word in words for edge in (word["start"], word["end"])]
    assert edges == sorted(edges)
    assert {"partial", "final", "endpoint"} == {event["type"] for event in events}
    check_partials(events)
    assert soundfile.info(take).duration > 14


def test_two_inputs_are_two_channels(server, tmp_path):
    """Two rooms, two people: each is written down as one who speaks alone would be."""
    hall = server.control("load-module", "module-null-sink", "sink_name=hall").stdout.strip()
    notes = tmp_path / "notes.txt"
    both = ("--input-device", "speech", "--input-device", "hall.monitor")
    live = server.start("-m", "asr", "live", *both, "--format", "jsonl", "--output", notes)
    try:
        assert "speech at 44100 Hz and hall.monitor at 44100 Hz" in read_until(live.stderr, "listening to")
        samples, rate = soundfile.read(SAMPLE)
        players = []
        for sink, part in ("room", samples[: 5 * rate]), ("hall", samples[-5 * rate :]):
            soundfile.write(tmp_path / f"{sink}.wav", part, rate)
            players.append(server.play(tmp_path / f"{sink}.wav", sink))
        assert [player.wait() for player in players] == [0, 0]
        live.send_signal(signal.SIGINT)
        out, err = live.communicate(timeout=30)
    finally:
        live.kill()
        server.control("unload-module", hall)
    assert live.returncode == 0, err
    finals = [event for event in map(json.loads, out.splitlines()) if event["type"] == "final"]
    heard = {channel: " ".join(e["text"] for e in finals if e["channel"] == channel) for channel in (1, 2)}
    assert distance(TEXTS[0], heard[1]) <= 2
    assert distance(TEXTS[2], heard[2]) <= 2
    lines = notes.read_text().splitlines()
    assert sorted(lines) == sorted(f"Channel {event['channel']}: {event['text']}" for event in finals)


def check_partials(events: list[dict]) -> None:
    """What has once been stable stays, until the utterance's final replaces it."""
    stable = ""
    for event in events:
        if event["type"] == "partial":
            assert event["text"].startswith(event["stable"])
            assert event["stable"].startswith(stable)
            stable = event["stable"]
        else:
            stable = ""


def test_an_unplugged_microphone_does_not_end_the_session_but_sigterm_does(server):
    live = server.start("-m", "asr", "live", "--input-device", "speech")
    try:
        told = read_until(live.stderr, "listening to speech")
        time.sleep(2.5)
        server.unplug()
        told += read_until(live.stderr, "speech is gone: waiting for it to come back")
        time.sleep(1.5)
        assert live.poll() is None
        live.send_signal(signal.SIGTERM)
        out, err = live.communicate(timeout=20)
    finally:
        live.kill()
        server.plug_in()
    assert live.returncode == 0, err
    assert out == "", "no words where nobody spoke"
    assert all(line.startswith("asr: ") for line in (told + err).splitlines())


@pytest.fixture(scope="module")
def without_portaudio(tmp_path_factory) -> dict[str, str]:
    """An environment in which PortAudio is not found."""
    folder = tmp_path_factory.mktemp("hidden")
    (folder / "sitecustomize.py").write_text("import ctypes.util\nctypes.util.find_library = lambda name: None\n")
    return os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}


@pytest.mark.skipif(sys.platform != "linux", reason="sounddevice brings its own PortAudio here")
@pytest.mark.parametrize("command", ["live", "devices"])
def test_a_missing_portaudio_is_told_in_one_line(without_portaudio, command):
    done = run(command, env=without_portaudio)
    assert done.returncode == 2
    assert done.stderr.startswith("asr: PortAudio, which microphones are read with, is missing: install it")
    assert done.stderr.count("\n") == 1


def run(*arguments: object, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "asr", *map(str, arguments)]
    return subprocess.run(command, env=env, capture_output=True, encoding="utf-8", timeout=60)


def test_a_recording_is_written_down_as_by_transcribe_and_without_portaudio(without_portaudio, transcript, tmp_path):
    notes, take = tmp_path / "notes.txt", tmp_path / "take.wav"
    options = ("--fast", "--partials", "decoder", "--format", "jsonl", "--output", notes, "--save-audio", take)
    done = run("live", "--input", SAMPLE, *options, env=without_portaudio)
    assert (done.returncode, done.stderr) == (0, "")
    assert notes.read_text() == transcript
    np.testing.assert_allclose(soundfile.read(take)[0], soundfile.read(SAMPLE)[0], atol=1e-4)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["text"] for event in events if event["type"] == "final"] == transcript.splitlines()
    assert sum(event["type"] == "partial" for event in events) > 2
    check_partials(events)


def test_without_partials_there_are_only_finals(tmp_path):
    soundfile.write(tmp_path / "a.wav", *part(0, 4.7))
    done = asr("live", "--input", tmp_path / "a.wav", "--fast", "--partials", "off", "-f", "jsonl")
    assert [json.loads(line)["type"] for line in done.stdout.splitlines()] == ["final", "endpoint"]


def test_for_dictation_pauses_end_no_utterance(tmp_path):
    soundfile.write(tmp_path / "a.wav", *part(0, 9))
    options = ("--fast", "--partials", "off", "-f", "jsonl", "--pause-ms", "inf", "--unheard-ms", "inf")
    done = asr("live", "--input", tmp_path / "a.wav", *options)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["type"] for event in events] == ["final", "endpoint"]
    assert events[1]["reason"] == "end"
    assert events[0]["text"].startswith("Good")
    assert "listens" in events[0]["text"]


def part(start: float, end: float) -> tuple[np.ndarray, int]:
    """Samples and rate of the sample's seconds from `start` to `end`."""
    samples, rate = soundfile.read(SAMPLE)
    return samples[round(start * rate) : round(end * rate)], rate


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
@pytest.mark.parametrize("piped", [False, True])
def test_sigint_finishes_the_utterance(tmp_path, piped):
    """Of a recording that comes at the pace of speech, and of a pipe that stays open and gives nothing more."""
    sound = tmp_path / "from the second utterance on.wav"
    soundfile.write(sound, *part(5.0, 7.5 if piped else 60))
    live = start("live", "--input", "-" if piped else sound, "--format", "jsonl", stdin=subprocess.PIPE)
    if piped:
        live.stdin.buffer.write(sound.read_bytes())
        live.stdin.buffer.flush()
    read_until(live.stdout, '"partial"')
    time.sleep(1.5)
    live.send_signal(signal.SIGINT)
    out = live.stdout.read()
    assert live.wait(20) == 0, live.stderr.read()
    final = json.loads(out.splitlines()[-2])
    assert final["type"] == "final"
    assert final["text"].startswith("It listens")
    assert "trains" not in out


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_loading_with_one_line(tmp_path, number):
    """A model whose description does not come: the loading lasts until the signal."""
    (tmp_path / "pieces.model").touch()
    os.mkfifo(tmp_path / "model.json")
    live = Asr("live", "--input", SAMPLE, "--model", tmp_path)
    with (tmp_path / "model.json").open("wb"):  # opened on both sides: it is being read
        live.send_signal(number)
        out, err = live.communicate(30)
    assert (live.returncode, out, err) == (0, "", "asr: ended before it listened\n")


@pytest.mark.skipif(sys.platform == "win32", reason="pipes cannot be waited for there")
@pytest.mark.parametrize("command", [("transcribe", "-"), ("live", "--input", "-")])
def test_the_final_comes_though_the_pipe_stays_open(command):
    """And raw samples need no header."""
    samples, rate = part(0, 4.7)
    options = ("--raw", "s16le", "--rate", rate, "--channels", 2, "--format", "jsonl")
    reader = start(*command, *options, stdin=subprocess.PIPE)
    pcm = np.rint(32767 * np.repeat(samples, 2)).astype("<i2").tobytes()
    reader.stdin.buffer.write(pcm)
    reader.stdin.buffer.flush()
    said = read_until(reader.stdout, '"final"')
    assert json.loads(said.splitlines()[-1])["text"].startswith("Good")
    reader.stdin.close()
    assert reader.wait(20) == 0, reader.stderr.read()


def test_the_clock_goes_on_where_sound_was_lost():
    word = Word("go", 1.0, 1.5, 0.9)

    class Lossy:
        skipped, sample_rate, level, statistics = [(0.5, 10.0), (3.0, 5.0)], 16000, 0.0, Statistics()

        def __iter__(self):
            yield np.zeros(16000, np.float32)

    events = [Final("go", 0.4, 1.6, (word,)), Endpoint(3.5, "pause")]
    stream = SimpleNamespace(accept=lambda block, rate: events, finish=list, seconds=4.0)
    shown, times = [], []
    view = SimpleNamespace(event=shown.append, progress=lambda level, lag, seconds, peak: times.append(seconds))
    listen(Lossy(), stream, view)
    assert shown == [Final("go", 0.4, 11.6, (Word("go", 11.0, 11.5, 0.9),)), Endpoint(18.5, "pause")]
    assert times == [19.0]


def test_the_inputs_are_listed_with_the_default_marked(server):
    done = subprocess.run(
        [sys.executable, "-m", "asr", "devices"], env=server.environment, capture_output=True, text=True
    )
    assert done.returncode == 0
    rows = done.stdout.splitlines()
    assert rows[0].split() == ["index", "name", "host", "API", "channels", "rate"]
    assert ["0", "speech", "ALSA", "32", "44100", "Hz"] in [row.split() for row in rows]
    assert "* is used when none is named" in rows
    assert sum(row.startswith("* ") for row in rows) == 2


@pytest.mark.parametrize("command", ["live", "devices"])
def test_no_microphone_at_all_is_told_in_one_line(server, command):
    environment = server.environment | {"ALSA_CONFIG_PATH": "", "PULSE_SERVER": "unix:/nowhere"}
    done = subprocess.run([sys.executable, "-m", "asr", command], env=environment, capture_output=True, text=True)
    if done.returncode == 0 or "listening" in done.stderr:
        pytest.skip("this machine has a microphone")
    assert done.returncode == 2
    assert done.stderr.startswith("asr: no microphone found")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--input", "missing.wav"), "missing.wav: no such file"),
        (("--input", SAMPLE, "--save-audio", "take.mp3"), "take.mp3: sound is saved as .flac or .wav"),
        (("--input", SAMPLE, "--save-audio", "there.flac"), "there.flac: exists already"),
        (("--input", SAMPLE, "--output", "no/notes.txt"), "cannot write no/notes.txt"),
        (("--input", SAMPLE, "--input-device", "usb"), "exclude each other"),
        (("--raw", "s16le"), "about a recording"),
        (("--input", SAMPLE, "--rate", "8000"), "add --raw"),
        (("--input", SAMPLE, "--raw", "s17"), "no coding s17"),
    ],
)
def test_wrong_usage_is_told_in_one_line(tmp_path, options, line):
    (tmp_path / "there.flac").write_bytes(b"yesterday")
    done = asr("live", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert line in done.stderr
    assert "Traceback" not in done.stderr
