"""The job on a Ray cluster: the same results, also when a worker is lost on the way."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from asr.errors import AsrError
from asr.jobs.inputs import find_inputs
from asr.jobs.plan import plan
from asr.jobs.ray_engine import run_ray
from asr.jobs.worker import Settings, Worker
from asr.recognition.recognizer import StreamOptions
from tests.audio.makers import with_soundfile
from tests.recordings import RATE, speech_like
from tests.small import small_model


def test_without_ray_one_line_tells_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(AsrError, match=r"pip install 'asr\[ray\]'"):
        list(run_ray([], Settings()))


@pytest.mark.slow
def test_a_killed_worker_loses_nothing_and_nothing_is_done_twice(tmp_path):
    """Two workers; one is killed in mid-run. All outputs are there, one outcome each, none written a second time."""
    ray = pytest.importorskip("ray", reason="the ray extra is not installed")
    import psutil

    small_model(1).save(tmp_path / "model")
    (tmp_path / "in").mkdir()
    for i in range(120):
        (tmp_path / "in" / f"{i:03}.wav").write_bytes(with_soundfile(speech_like(i, 4), "WAV", rate=RATE))
    settings = Settings(str(tmp_path / "model"), options=StreamOptions(320, 320, second_pass=False), together=4)
    tasks = plan(find_inputs([str(tmp_path / "in")]), ["json"], tmp_path / "out")
    ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False, logging_level="error")
    written, killed = {}, []

    def watch():
        """Kills one worker when some files are there, and notes when each was written."""
        while len(written) < 120:
            for path in (tmp_path / "out").glob("*.json"):
                written.setdefault(path.name, path.stat().st_mtime_ns)
            if not killed and len(written) >= 20:
                for process in psutil.Process().children(recursive=True):
                    if process.is_running() and "ray::_decode" in " ".join(process.cmdline()):
                        killed.append(process.pid)
                        os.kill(process.pid, signal.SIGKILL)
                        break
            time.sleep(0.02)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        outcomes = list(run_ray(tasks, settings))
        watcher.join(20)
    finally:
        ray.shutdown()
    assert killed
    assert not [o.error for o in outcomes if o.error]
    assert sorted(o.number for o in outcomes) == list(range(120))
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.json")} == written
    assert len(written) == 120
    alone = plan(find_inputs([str(tmp_path / "in")])[:3], ["json"], tmp_path / "alone")
    list(Worker(settings).run(alone))
    for task in alone:
        one = Path(task.outputs["json"])
        assert one.read_text() == (tmp_path / "out" / one.name).read_text()
