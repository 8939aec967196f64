"""Microphones through a real sound path: a PulseAudio server of our own, ALSA's pulse plugin, PortAudio."""

import json
import os
import signal
import time

import numpy as np
import pytest
import soundfile

from asr.audio.microphone import STALLED, WAIT
from tests.sound_server import SoundServer

RATE = 44100


@pytest.fixture(scope="module")
def server():
    server = SoundServer()
    yield server
    server.close()


LISTEN = """
import json, os, signal, time
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
    tone = 0.25 * np.sin(2 * np.pi * 1000 * np.arange(30 * RATE) / RATE)
    soundfile.write(tmp_path / "tone.wav", np.stack([tone, tone], 1), RATE)
    player = server.play(tmp_path / "tone.wav")
    rate, dtype, shape, pitch, level, lag = listen(
        server,
        """
with microphone.Microphone("speech") as source:
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


def test_the_queue_is_bounded_and_what_it_drops_is_told_at_once_and_stays_in_the_clock(server):
    overflowing, told, kept, clock = listen(
        server,
        """
microphone.QUEUE, microphone.GAP = 0.3, 0.2
with microphone.Microphone("speech", warn) as source:
    while source.statistics.dropped_seconds < 0.5: time.sleep(0.1)
    print(json.dumps([source.statistics.dropped_blocks, source.statistics.dropped_seconds, source.statistics.lag]))
    blocks = iter(source)
    heard = len(next(blocks))
    source.stop()
    heard += sum(map(len, blocks))
    lost, skipped = source.statistics.dropped_seconds, sum(seconds for _, seconds in source.skipped)
    print(json.dumps(heard / source.sample_rate))
    print(json.dumps(heard / source.sample_rate + skipped - lost))
""",
    )
    blocks, seconds, lag = overflowing
    assert seconds == pytest.approx(0.02 * blocks, rel=0.01)
    assert lag <= 0.3
    assert "does not keep up" in told
    assert 0.4 < kept < 0.55, "0.2 s of silence, then what was waiting"
    assert 0.2 < clock < 0.35, "what was waiting, beside what was lost"


def test_sound_that_the_system_loses_is_told_and_stays_in_the_clock(server):
    told, clock = listen(
        server,
        """
from types import SimpleNamespace
source = microphone.Microphone("speech", warn)
source._open(source._device, (source.sample_rate,))
source._stream.stop()
source._queue.clear()
source._waiting, source._last_block = 0, time.monotonic() - 5
block = np.full((441, 2), 0.1, np.float32)
source._capture(block, 441, None, SimpleNamespace(input_overflow=True))
source._stopped = True
heard = np.concatenate(list(source))
print(json.dumps([len(heard) / source.sample_rate, sum(seconds for _, seconds in source.skipped)]))
""",
    )
    assert "lost sound, about 5.0 s" in told
    assert clock == pytest.approx([2.01, 2.99], abs=0.05)


def test_a_device_that_goes_quiet_is_told_within_two_seconds(server):
    listener = server.start(
        "-c",
        LISTEN
        + """
microphone.MUTED = 1e9
with microphone.Microphone("speech", warn) as source:
    for number, block in enumerate(source):
        if number == 0: warn("listening")
        if source._gone: break
""",
    )
    assert json.loads(listener.stdout.readline()) == "listening"
    assert server.control("suspend-sink", "room", "1").returncode == 0
    try:
        assert json.loads(listener.stdout.readline()) == "speech is gone: waiting for it to come back"
        assert STALLED * WAIT < 2
    finally:
        server.control("suspend-sink", "room", "0")
        listener.kill()


def test_a_machine_that_stands_still_for_a_while_does_not_take_its_microphone_for_gone(server):
    listener = server.start(
        "-c",
        LISTEN
        + """
with microphone.Microphone("speech", warn) as source:
    blocks = iter(source)
    next(blocks)
    os.kill(os.getpid(), signal.SIGSTOP)
    for _ in range(20): next(blocks)
""",
    )
    os.waitpid(listener.pid, os.WUNTRACED)
    time.sleep(STALLED * WAIT + 0.5)
    listener.send_signal(signal.SIGCONT)
    told, _ = listener.communicate(timeout=60)
    assert listener.returncode == 0
    assert "is gone" not in told


def test_a_muted_microphone_is_told_once_and_listened_to_further(server):
    *told, seconds = listen(
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
    assert sum("gives nothing but zeros: is it muted" in line for line in told) == 1
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


def pitch_of(server: SoundServer, query: str) -> int:
    """The strongest frequency (Hz) in half a second of an input, once there is sound in it."""
    (pitch,) = listen(
        server,
        f"""
with microphone.Microphone({query!r}) as source:
    heard = np.zeros(0, np.float32)
    for block in source:
        if heard.size or block.any(): heard = np.append(heard, block)
        if heard.size > source.sample_rate: source.stop()
print(json.dumps(2 * int(np.abs(np.fft.rfft(heard[source.sample_rate // 4 :][: source.sample_rate // 2])).argmax())))
""",
    )
    return pitch


def test_what_the_computer_plays_is_an_input_in_all_or_of_one_output(server, tmp_path):
    other = server.control("load-module", "module-null-sink", "sink_name=hall").stdout.strip()
    server.control("set-default-sink", "hall")
    players = []
    try:
        for sink, hertz in ("room", 500), ("hall", 900):
            tone = 0.25 * np.sin(2 * np.pi * hertz * np.arange(60 * RATE) / RATE)
            soundfile.write(tmp_path / f"{sink}.wav", tone, RATE)
            players.append(server.play(tmp_path / f"{sink}.wav", sink))
        listed = server.python("from asr.cli import main; import sys; sys.argv = ['asr', 'devices']; main()").stdout
        assert {"monitor", "room.monitor", "hall.monitor"} <= set(listed.split())
        assert abs(pitch_of(server, "monitor") - 900) <= 2
        assert abs(pitch_of(server, "room.monitor") - 500) <= 2
    finally:
        for player in players:
            player.terminate()
            player.wait()
        server.control("unload-module", other)
        server.control("set-default-sink", "room")
