"""`asr dictate` at work: speech is played into a room, hot keys are pressed, and words are in a window."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from asr.dictation.announcing import announcer
from asr.dictation.control import Order, send
from asr.dictation.dictation import Dictation
from asr.dictation.writing import Dictated, Piping
from asr.errors import DesktopError, MicrophoneError
from asr.events import Final
from tests.cli.runner import asr
from tests.cli.test_live import distance, read_until
from tests.dictation.screen import Editor, Screen
from tests.dictation.test_writing import program, wait_for
from tests.recordings import SAMPLE, TEXTS
from tests.sound_server import SoundServer

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="PulseAudio and X11 are Linux's")


@pytest.fixture
def server():
    server = SoundServer()
    yield server
    server.close()


@pytest.fixture
def screen():
    screen = Screen()
    yield screen
    screen.close()


def test_what_is_said_between_two_orders_is_in_the_window(server, screen, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", server.environment["XDG_RUNTIME_DIR"])
    samples, rate = soundfile.read(SAMPLE, stop=5 * 16000)
    soundfile.write(tmp_path / "first.wav", samples, rate)
    server.environment |= {"DISPLAY": screen.name, "WAYLAND_DISPLAY": ""}
    editor = Editor(screen, tmp_path / "typed")
    dictate = server.start("-m", "asr", "dictate", "--wait", "--input-device", "speech")
    try:
        read_until(dictate.stderr, "waiting for asr dictate --begin or --toggle")
        assert send(Order.begin) == "dictation begins"
        read_until(dictate.stderr, "listening to speech")
        assert server.play(tmp_path / "first.wav").wait() == 0
        command = [sys.executable, "-m", "asr", "dictate", "--toggle"]  # as a hot key starts it
        pressed = subprocess.run(command, env=server.environment, capture_output=True, text=True)
        assert pressed.stderr == "asr: dictation ends\n"
        read_until(dictate.stderr, "dictation has ended")
        (text,) = editor.lines(1)
        assert distance(TEXTS[0], text) <= 2
        dictate.send_signal(signal.SIGINT)
        dictate.communicate(timeout=30)
        assert dictate.returncode == 0
    finally:
        dictate.kill()
        editor.close()


class Hum:
    """A source that hums until it is stopped."""

    name, sample_rate, level, statistics, skipped = "hum", 16000, 0.1, SimpleNamespace(lag=0.0), []

    def __enter__(self):
        self._stopped = threading.Event()
        return self

    def __exit__(self, *exception):
        pass

    def __iter__(self):
        while not self._stopped.wait(0.005):
            yield np.zeros(1600, np.float32)

    def stop(self):
        self._stopped.set()


class Counting:
    """A stream that hears a number at the end: which stream it is."""

    def __init__(self, number: int) -> None:
        self.number, self.seconds = number, 0.0

    def accept(self, block, rate):
        return []

    def hurry(self):
        pass

    def finish(self):
        return [Final(f"{self.number}", 0, 1)]


@pytest.fixture
def dictation(tmp_path):
    """A dictation whose words go to a file, in a thread; `told` is what it says, `sources` what it shall listen to."""
    told, streams, sources = [], [], []

    def open_stream():
        streams.append(Counting(len(streams) + 1))
        return streams[-1]

    def open_source():
        source = sources.pop(0) if sources else Hum()
        if isinstance(source, Exception):
            raise source
        return source

    writer = Piping(f"cat >> {tmp_path}/words")
    dictation = Dictation(
        open_source,
        open_stream,
        lambda: Dictated(writer, False, told.append),
        lambda line, begins: None,
        told.append,
        lambda statistics: None,
    )
    dictation.told, dictation.sources, dictation.file = told, sources, tmp_path / "words"
    yield dictation
    dictation.stop()


def run(dictation: Dictation) -> threading.Thread:
    thread = threading.Thread(target=dictation.run, daemon=True)
    thread.start()
    return thread


def test_dictations_begin_end_and_are_cancelled_in_one_process(dictation):
    thread = run(dictation)
    for number, last in enumerate((Order.toggle, Order.cancel, Order.end), 1):
        assert dictation.obey(Order.begin) == "dictation begins"
        assert dictation.obey(Order.begin) == "dictation is on already"
        wait_for(lambda number=number: dictation.told.count("listening to hum") == number)
        dictation.obey(last)
        wait_for(lambda number=number: dictation.told.count("dictation has ended") == number)
    assert dictation.obey(Order.end) == "no dictation is on"
    assert dictation.file.read_text() == "1\n3\n"
    assert dictation.obey(Order.begin) == "dictation begins"
    wait_for(lambda: dictation.told.count("listening to hum") == 4)
    dictation.stop()
    thread.join(20)
    assert not thread.is_alive()
    assert dictation.file.read_text() == "1\n3\n4\n", "what is being said is finished"


def test_an_end_that_comes_before_the_microphone_is_open_counts(dictation):
    dictation.obey(Order.begin)
    dictation.obey(Order.end)
    dictation.obey(Order.begin)
    dictation.obey(Order.quit)
    dictation.run()
    assert not dictation.file.exists()


def test_a_microphone_that_is_gone_later_is_told_and_the_next_order_tries_again(dictation):
    gone = [MicrophoneError("it is gone")] * 2  # also after PortAudio has looked again
    dictation.sources += [Hum(), *gone, Hum()]
    run(dictation)
    for line in ("listening to hum", "it is gone", "listening to hum"):
        before = dictation.told.count(line)
        dictation.obey(Order.begin)
        wait_for(lambda line=line, before=before: dictation.told.count(line) > before)
        dictation.obey(Order.end)


def test_without_a_microphone_at_first_it_ends(dictation):
    dictation.sources.append(MicrophoneError("no microphone found"))
    dictation.obey(Order.begin)
    with pytest.raises(MicrophoneError, match="no microphone found"):
        dictation.run()


def test_notifications_go_to_the_desktop(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program(tmp_path, "notify-send", f'echo "$@" >> {tmp_path}/shown')
    announcer("notification")("dictation begins", True)
    assert (tmp_path / "shown").read_text().endswith("asr dictation begins\n")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DesktopError, match="notify-send is missing: install the package libnotify-bin"):
        announcer("notification")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--end"], "no dictation runs: asr dictate starts one"),
        (["--begin", "--end"], "exclude each other"),
        (["--command", "cat", "--partials", "auto"], "--command gets finals only"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(arguments, line, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    done = asr("dictate", *arguments)
    assert done.returncode == 2
    assert line in " ".join(done.stderr.replace("│", " ").split())
