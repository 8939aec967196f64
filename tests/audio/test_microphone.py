"""Microphones through a real sound path: a PulseAudio server of our own, ALSA's pulse plugin, PortAudio."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from ctypes.util import find_library
from pathlib import Path

import numpy as np
import pytest
import soundfile

RATE = 44100
ALSA_CONFIG = """
</usr/share/alsa/alsa.conf>
pcm.speech { type pulse device "room.monitor" hint { show on description "what is played into the room" } }
pcm.speech_too { type pulse device "room.monitor" }
pcm.absent { type pulse device "nowhere" }
ctl.!default { type pulse }
"""


class SoundServer:
    """A PulseAudio server with one virtual loudspeaker, `room`, that PortAudio hears as the input `speech`.

    Attributes:
        environment: of the processes that shall use it.
    """

    def __init__(self) -> None:
        needed = [tool for tool in ("pulseaudio", "paplay", "pactl") if shutil.which(tool) is None]
        needed += [] if find_library("portaudio") else ["libportaudio2"]
        if needed or not sys.platform.startswith("linux"):
            pytest.skip(f"no sound server can run here: scripts/install_sound installs {', '.join(needed)}")
        self._folder = Path(tempfile.mkdtemp(prefix="sound"))
        (self._folder / "alsa.conf").write_text(ALSA_CONFIG)
        socket = self._folder / "socket"
        self.environment = os.environ | {
            "HOME": str(self._folder),
            "XDG_RUNTIME_DIR": str(self._folder),
            "PULSE_SERVER": f"unix:{socket}",
            "ALSA_CONFIG_PATH": str(self._folder / "alsa.conf"),
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "120",
            "PYTHONUNBUFFERED": "1",
            "PYTHONIOENCODING": "utf-8",
        }
        options = ["-n", "--exit-idle-time=-1", "--daemonize=no", "--system=false", "--use-pid-file=no"]
        options += ["--resample-method=speex-float-10"]
        protocol = f"module-native-protocol-unix auth-anonymous=1 socket={socket}"
        self._log = (self._folder / "log").open("w")
        self._server = subprocess.Popen(
            ["pulseaudio", *options, "-L", protocol], env=self.environment, stdout=self._log, stderr=self._log
        )
        deadline = time.monotonic() + 10
        while self.control("info").returncode:
            if self._server.poll() is not None or time.monotonic() > deadline:
                self.close()
                pytest.skip("PulseAudio does not start here")
            time.sleep(0.1)
        self.plug_in()
        if "speech" not in self.python("from asr.audio.microphone import list_inputs; print(list_inputs())").stdout:
            self.close()
            pytest.skip("PortAudio does not see PulseAudio: scripts/install_sound installs libasound2-plugins")

    def close(self) -> None:
        self._server.terminate()
        self._server.wait()
        self._log.close()
        shutil.rmtree(self._folder)

    def control(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["pactl", *arguments], env=self.environment, capture_output=True, text=True)

    def plug_in(self) -> None:
        self._module = self.control("load-module", "module-null-sink", "sink_name=room").stdout.strip()

    def unplug(self) -> None:
        self.control("unload-module", self._module)

    def play(self, file: Path) -> subprocess.Popen:
        """Plays a sound file into the room; to be waited for or terminated."""
        return subprocess.Popen(["paplay", str(file)], env=self.environment)

    def python(self, code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code], env=self.environment, capture_output=True, text=True, timeout=60
        )

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """A Python process with pipes for its output."""
        pipe = subprocess.PIPE
        command = [sys.executable, *map(str, arguments)]
        return guarded(subprocess.Popen(command, env=self.environment, stdout=pipe, stderr=pipe, text=True))


def guarded(process: subprocess.Popen[str]) -> subprocess.Popen[str]:
    """The process, killed after a minute, so that no test waits for ever for a line that does not come."""
    timer = threading.Timer(60, process.kill)
    timer.daemon = True
    timer.start()
    return process


@pytest.fixture(scope="module")
def server():
    server = SoundServer()
    yield server
    server.close()


LISTEN = """
import json, sys, time
import numpy as np
import asr.audio.microphone as microphone
def warn(line): print(json.dumps(line), flush=True)
"""


def listen(server: SoundServer, code: str) -> list:
    """What a script that has `microphone` and `warn` prints, a JSON value a line."""
    done = server.python(LISTEN + code)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_inputs_are_found_by_index_and_by_part_of_the_name(server):
    first, by_index, by_part, default = listen(
        server,
        """
inputs = microphone.list_inputs()
for device in inputs[0], microphone.find_input("0"), microphone.find_input("SPEECH_"), microphone.find_input():
    print(json.dumps(device.__dict__))
""",
    )
    assert first == by_index
    assert first["host_api"] == "ALSA"
    assert first["rate"] == RATE
    assert by_part["name"] == "speech_too"
    assert default["is_default"]


def test_the_whole_name_wins_over_longer_ones(server):
    assert listen(server, "print(json.dumps(microphone.find_input('Speech').name))") == ["speech"]


@pytest.mark.parametrize(
    ("query", "line"),
    [("speec", "2 inputs fit 'speec'"), ("tuba", "no input fits 'tuba'"), ("99", "no input fits '99'")],
)
def test_an_ambiguous_or_unknown_input_lists_the_candidates(server, query, line):
    (told,) = listen(
        server,
        f"""
try: microphone.Microphone({query!r})
except microphone.MicrophoneError as error: warn(str(error))
""",
    )
    assert told.startswith(line)
    assert "0 speech, 1 speech_too" in told
    assert "\n" not in told


def test_the_sound_comes_mono_at_the_devices_own_rate(server, tmp_path):
    tone = 0.25 * np.sin(2 * np.pi * 1000 * np.arange(8 * RATE) / RATE)
    soundfile.write(tmp_path / "tone.wav", np.stack([tone, tone], 1), RATE)
    player = server.play(tmp_path / "tone.wav")
    rate, dtype, shape, pitch, level, lag = listen(
        server,
        """
with microphone.Microphone("speech", warn) as source:
    blocks, heard = [], 0
    for block in source:
        if block.any():
            blocks.append(block)
            heard += len(block)
        if heard > 2 * source.sample_rate: source.stop()
    level, lag = source.level, source.statistics.lag
samples = np.concatenate(blocks)[source.sample_rate // 2 :][: source.sample_rate]
pitch = int(np.abs(np.fft.rfft(samples)).argmax())
for value in source.sample_rate, str(samples.dtype), samples.shape, pitch, float(samples.std()), lag:
    print(json.dumps(value))
""",
    )
    player.terminate()
    player.wait()
    assert rate == RATE
    assert dtype == "float32"
    assert shape == [RATE]
    assert abs(pitch - 1000) <= 1
    assert level == pytest.approx(0.25 / 2**0.5, rel=0.05)
    assert lag == 0


def test_the_queue_is_bounded_and_what_it_drops_is_counted(server):
    overflowing, waiting = listen(
        server,
        """
microphone.QUEUE = 0.3
with microphone.Microphone("speech", warn) as source:
    while not source.statistics.dropped_blocks: time.sleep(0.1)
    time.sleep(0.5)
    print(json.dumps([source.statistics.dropped_blocks, source.statistics.dropped_seconds, source.statistics.lag]))
    source.stop()
    print(json.dumps(sum(map(len, source)) / source.sample_rate))
""",
    )
    blocks, seconds, lag = overflowing
    assert seconds == pytest.approx(0.02 * blocks, rel=0.01)
    assert lag <= 0.3
    assert 0.2 < waiting < 0.35


def test_a_muted_microphone_is_told_once_and_listened_to_further(server):
    told, seconds = listen(
        server,
        """
with microphone.Microphone("speech", warn) as source:
    seconds = 0
    for block in source:
        seconds += len(block) / source.sample_rate
        if seconds > 3.5: source.stop()
print(json.dumps(seconds))
""",
    )
    assert "gives nothing but zeros: is it muted" in told
    assert seconds > 3.5


def test_an_unplugged_microphone_is_told_and_goes_on_when_it_is_back(server):
    listener = server.start(
        "-c",
        LISTEN
        + """
microphone.MUTED = 1e9
with microphone.Microphone("speech", warn) as source:
    lengths = 0
    for block in source:
        if lengths == 0: warn("listening")
        lengths += len(block)
        if source.statistics.unplugged and not source._gone: source.stop()
print(json.dumps([source.statistics.unplugged, lengths]))
""",
    )
    lines = (json.loads(line) for line in listener.stdout)
    assert next(lines) == "listening"
    server.unplug()
    assert next(lines) == "speech is gone: waiting for it to come back"
    time.sleep(1.5)
    server.plug_in()
    assert next(lines) == "speech is back"
    times, samples = next(lines)
    assert times == 1
    assert samples > 2 * RATE
    listener.communicate(timeout=20)
    assert listener.returncode == 0


def test_a_device_that_does_not_open_is_told_in_one_line(server):
    (told,) = listen(
        server,
        """
try:
    with microphone.Microphone("absent", warn) as source:
        next(iter(source))
except microphone.MicrophoneError as error: warn(str(error))
""",
    )
    assert told.startswith("absent ")
