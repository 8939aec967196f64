"""Workers: every input has an outcome, and what is wrong with one is no other's trouble."""

import json
import os
import signal
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from asr.errors import ModelError
from asr.events import Endpoint
from asr.jobs import sound as sound_module
from asr.jobs.inputs import Input, find_inputs
from asr.jobs.job import make_groups, run_local, sensible_jobs
from asr.jobs.plan import Task, plan
from asr.jobs.report import Report, clock
from asr.jobs.worker import Outcome, Settings, Worker
from asr.recognition.recognizer import StreamOptions
from tests.audio.makers import picture, silent_video, with_soundfile
from tests.recordings import RATE, check_equal, speech_like
from tests.small import small_model, small_reader

FAST = StreamOptions(640, 0, second_pass=False)


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> Settings:
    folder = tmp_path_factory.mktemp("model")
    small_model(1).save(folder)
    return Settings(str(folder), threads=1, options=FAST)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory) -> Path:
    """Seven good recordings of different lengths and five that are none."""
    folder = tmp_path_factory.mktemp("recordings")
    for i in range(7):
        (folder / f"good{i}.wav").write_bytes(with_soundfile(speech_like(i, 0.5 + i), "WAV", rate=RATE))
    (folder / "bad text.wav").write_text("no sound\n" * 99)
    (folder / "bad empty.flac").write_bytes(b"")
    (folder / "bad silent film.mp4").write_bytes(silent_video())
    (folder / "bad picture.mp3").write_bytes(picture("mjpeg"))
    (folder / "bad link.ogg").symlink_to(folder / "nowhere")
    return folder


def test_each_input_has_one_outcome(settings, recordings, tmp_path):
    tasks = plan(find_inputs([str(recordings)]), ["json", "txt"], tmp_path)
    outcomes = list(Worker(settings).run(tasks))
    assert sorted(o.number for o in outcomes) == list(range(12))
    failed = {Path(o.name).name: o.error for o in outcomes if o.error}
    assert len(failed) == 5
    assert all(name.startswith("bad") and name in error and "\n" not in error for name, error in failed.items())
    for i in range(7):
        written = json.loads((tmp_path / f"good{i}.json").read_text())
        assert written["duration"] == 0.5 + i
        assert (tmp_path / f"good{i}.txt").read_text().split() == written["text"].split()
    assert not list(tmp_path.glob("bad*"))


def check_same(some, others):
    """Outcomes of the same tasks, by number, up to rounding of confidences."""
    assert some.keys() == others.keys()
    for number, outcome in some.items():
        assert replace(outcome, events=()) == replace(others[number], events=())
        check_equal([e for e, _ in outcome.events], [e for e, _ in others[number].events])


def test_batches_give_what_single_decoding_gives(settings, recordings):
    tasks = [Task(n, item) for n, item in enumerate(find_inputs([f"{recordings}/good*"]))]
    together = {o.number: o for o in Worker(settings).run(tasks)}
    alone = {o.number: o for o in Worker(replace(settings, together=1)).run(tasks)}
    check_same(together, alone)
    assert all(any(isinstance(event, Endpoint) for event, _ in o.events) for n, o in alone.items() if n > 2)


def test_long_recordings_are_streams_with_the_same_result(settings, recordings, monkeypatch):
    tasks = [Task(n, item) for n, item in enumerate(find_inputs([f"{recordings}/good*"]))]
    short = {o.number: o for o in Worker(settings).run(tasks)}
    monkeypatch.setattr(sound_module, "LONG_SECONDS", 3.0)
    check_same({o.number: o for o in Worker(settings).run(tasks)}, short)


@pytest.mark.parametrize("longest", [60.0, 2.0])
def test_channels_apart_are_what_each_channel_is_alone(settings, tmp_path, monkeypatch, longest):
    monkeypatch.setattr(sound_module, "LONG_SECONDS", longest)
    left, right = speech_like(1, 6), speech_like(2, 6)
    for name, samples in (("left", left), ("right", right), ("both", np.stack([left, right], 1))):
        (tmp_path / f"{name}.wav").write_bytes(with_soundfile(samples, "WAV", "FLOAT", rate=RATE))
    tasks = [Task(n, i) for n, i in enumerate(find_inputs([str(tmp_path)]))]
    both, one, two = sorted(Worker(replace(settings, separate=True)).run(tasks), key=lambda o: o.number)
    for number, mono in ((1, one), (2, two)):
        assert [e for e, channel in both.events if channel == number] == [e for e, _ in mono.events]
    assert one.events


def test_an_output_that_cannot_be_written_is_that_inputs_failure(settings, recordings, tmp_path):
    tasks = plan(find_inputs([f"{recordings}/good*"]), ["txt"], tmp_path)
    (tmp_path / "good3.txt").mkdir()
    failed = [o for o in Worker(settings).run(tasks) if o.error]
    assert [Path(o.name).name for o in failed] == ["good3.wav"]
    assert "cannot write" in failed[0].error


@dataclass(frozen=True)
class Hostile(Input):
    """An input that kills the process that opens it."""

    def open(self):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_dies_takes_only_the_input_that_killed_it(settings, recordings, tmp_path):
    inputs = find_inputs([f"{recordings}/good*"])
    inputs.insert(3, Hostile("hostile.wav", str(recordings / "hostile.wav"), "hostile.wav"))
    outcomes = list(run_local(plan(inputs, ["txt"], tmp_path), settings, 2))
    assert sorted(o.number for o in outcomes) == list(range(8))
    (failed,) = [o for o in outcomes if o.error]
    assert failed.name == "hostile.wav"
    assert "SIGKILL" in failed.error
    assert len(list(tmp_path.glob("good*.txt"))) == 7


def test_processes_tell_that_there_is_no_model(recordings):
    with pytest.raises(ModelError, match="no model klingon"):
        list(run_local([Task(0, i) for i in find_inputs([f"{recordings}/good*"])], Settings("klingon"), 2))


def test_groups_hold_every_task_once_and_large_files_come_first(tmp_path):
    for i in range(150):
        (tmp_path / f"{i:03}.wav").write_bytes(bytes(10 * ((37 * i) % 150)))
    tasks = plan(find_inputs([str(tmp_path)]), ["txt"], None)
    for processes in (1, 2, 8):
        groups = make_groups(tasks, processes, in_order=False)
        sizes = [task.input.size() for group in groups for task in group]
        assert sizes == sorted(sizes, reverse=True)
        assert sorted(task.number for group in groups for task in group) == list(range(150))
        assert len(groups) >= (processes if processes > 1 else 1)
    assert [t.number for group in make_groups(tasks, 2, in_order=True) for t in group] == list(range(150))


def test_small_jobs_stay_in_one_process(tmp_path):
    (tmp_path / "a.wav").write_bytes(bytes(1000))
    (tmp_path / "b.wav").write_bytes(bytes(1000))
    assert sensible_jobs(plan(find_inputs([str(tmp_path)]), ["txt"], None), "cpu") == 1


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_is_heard_on_the_way_adds_up(settings, recordings, tmp_path, jobs, monkeypatch):
    """Each recording is done with in several steps, short ones and long ones, and never more than whole."""
    monkeypatch.setattr(sound_module, "LONG_SECONDS", 5.0)  # in this process
    small_reader(1).save(tmp_path / "model")
    reads = replace(settings, model=str(tmp_path / "model"), options=StreamOptions(640, 0))
    heard, tasks = Counter(), plan(find_inputs([str(recordings)]), ["txt"], tmp_path)
    steps = []

    def hear(number: int, share: float, seconds: float) -> None:
        heard[number] += share
        steps.append(number)

    outcomes = list(run_local(tasks, reads, jobs, heard=hear))
    seconds = {o.number: o.seconds for o in outcomes if o.error is None}
    assert all(share * seconds[number] < seconds[number] + 0.5 for number, share in heard.items())
    assert sum(share > 0.5 for share in heard.values()) >= 3
    assert max(Counter(steps).values()) >= 2


def test_a_report_knows_what_is_being_worked_on():
    report = Report(4)
    report.hear(0, 0.5, 30.0)
    report.hear(1, 0.25, 5.0)
    report.hear(0, 0.25, 15.0)
    assert (report.worked, report.heard) == (1.0, 50.0)
    report.add(Outcome(0, "a.wav", 60.0, 10))
    assert (report.worked, report.heard) == (1.25, 65.0)
    report.started -= 10.0
    assert report.remaining == pytest.approx(10 * 2.75 / 1.25, rel=0.01)


def test_a_report_counts_and_names():
    report = Report(5, ["e.wav"])
    for outcome in (
        Outcome(0, "a.wav", 7200.0, 10),
        Outcome(1, "b.wav", 3600.0, 0, warning="b.wav: cut off"),
        Outcome(2, "c.wav", error="c.wav: empty"),
    ):
        report.add(outcome)
    values = report.as_dict()
    assert (values["files"], values["transcribed"], values["done_before"], values["complete"]) == (5, 2, 1, False)
    assert values["audio_seconds"] == 10800
    assert values["failed"] == [{"file": "c.wav", "error": "c.wav: empty"}]
    assert values["no_words"] == ["b.wav"]
    assert "4 of 5 files, 1 failed, 3:00 h of sound" in report.progress()
    assert "left" in report.progress()
    assert [clock(s) for s in (0, 99, 125, 7384)] == ["0 s", "99 s", "2:05 min", "2:03 h"]
