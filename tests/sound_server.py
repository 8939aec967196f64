"""A sound path of our own: a PulseAudio server, ALSA's pulse plugin, PortAudio."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from ctypes.util import find_library
from pathlib import Path

import pytest

ALSA_CONFIG = """
</usr/share/alsa/alsa.conf>
pcm.speech { type pulse device "room.monitor" hint { show on description "what is played into the room" } }
pcm.speech_too { type pulse device "room.monitor" }
pcm.pulse { type pulse }
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

    def play(self, file: Path, sink: str = "room") -> subprocess.Popen:
        """Plays a sound file into the room, or into another sink; to be waited for or terminated."""
        return subprocess.Popen(["paplay", "--device", sink, str(file)], env=self.environment)

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
