"""Outputs lie where they are expected, never on top of anything, and are there whole or not at all."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.errors import AsrError
from asr.files import write_whole
from asr.jobs.inputs import Input, find_inputs
from asr.jobs.plan import Task, plan, refuse_replacing


def item(path: str, place: str | None = None) -> Input:
    return Input(path, path, place or Path(path).name)


def test_beside_the_input_or_in_a_folder_with_the_tree(tmp_path):
    inputs = [item("/talks/2024/may/a.b.mp3", "2024/may/a.b.mp3")]
    (task,) = plan(inputs, ["txt", "srt"], None)
    assert task.outputs == {"txt": "/talks/2024/may/a.b.txt", "srt": "/talks/2024/may/a.b.srt"}
    (task,) = plan(inputs, ["txt"], tmp_path)
    assert task.outputs == {"txt": str(tmp_path / "2024/may/a.b.txt")}


def test_two_recordings_of_one_name_get_a_file_each():
    tasks = plan([item("/x/a.wav"), item("/x/a.mp3"), item("/y/a.wav"), item("/x/b.wav")], ["txt"], Path("/out"))
    assert [task.outputs["txt"] for task in tasks] == [
        "/out/a.wav.txt",
        "/out/a.mp3.txt",
        "/out/a.wav-2.txt",
        "/out/b.txt",
    ]


def test_an_input_that_is_named_twice_is_done_once():
    assert len(plan([item("/x/a.wav"), item("/x/a.wav")], ["txt"], None)) == 1


def test_names_do_not_lead_out_of_the_folder():
    (task,) = plan([item("/x/a.wav", "../../etc/a.wav")], ["txt"], Path("/out"))
    assert task.outputs["txt"] == "/out/etc/a.txt"


part = st.sampled_from(["a", "b", "a.txt", "a.wav", "b.txt.txt", "a.wav-2"])


@given(st.lists(st.tuples(part, part), max_size=12), st.booleans())
def test_outputs_are_distinct_and_never_an_input(names, in_folder):
    inputs = [item(f"/in/{folder}/{name}", f"{folder}/{name}") for folder, name in names]
    tasks = plan(inputs, ["txt", "wav"], Path("/in") if in_folder else None)
    outputs = [path for task in tasks for path in task.outputs.values()]
    assert len(set(outputs)) == len(outputs) == 2 * len(set(names))
    assert not set(outputs) & {i.path for i in inputs}
    assert tasks == plan(inputs, ["txt", "wav"], Path("/in") if in_folder else None)


def test_done_is_all_outputs_there_and_newer_than_the_input(tmp_path):
    sound = tmp_path / "a.wav"
    sound.write_bytes(b"x")
    (task,) = plan(find_inputs([str(sound)]), ["txt", "srt"], tmp_path / "out")
    assert not task.done()
    write_whole(task.outputs["txt"], "words\n")
    assert not task.done()
    write_whole(task.outputs["srt"], "")
    assert task.done()
    assert not task.done(since=os.stat(task.outputs["srt"]).st_mtime + 1)
    earlier = os.stat(sound).st_mtime - 5
    os.utime(task.outputs["srt"], (earlier, earlier))
    assert not task.done()
    assert not Task(0, task.input).done()


def test_an_input_from_the_future_is_done_once(tmp_path):
    sound = tmp_path / "a.wav"
    sound.write_bytes(b"x")
    os.utime(sound, (4e9, 4e9))
    (task,) = plan(find_inputs([str(sound)]), ["txt"], None)
    write_whole(task.outputs["txt"], "")
    os.utime(task.outputs["txt"], (time.time() + 1,) * 2)  # not in the same tick of the clock
    assert task.done()
    os.utime(task.outputs["txt"], (1e9, 1e9))
    assert not task.done()


@pytest.mark.parametrize("letter", ["x", "語"])
def test_outputs_have_names_that_the_system_takes(tmp_path, letter):
    """A recording's own name may be so long that no format's suffix fits behind it."""
    names = [letter * (250 // len(letter.encode())) + end for end in ("1.wa", "2.wa")]
    tasks = plan([item(f"/in/{name}") for name in names], ["txt", "jsonl"], tmp_path)
    outputs = [path for task in tasks for path in task.outputs.values()]
    assert len(set(outputs)) == 4
    for path in outputs:
        write_whole(path, "words")
        assert Path(path).name.startswith(letter * 70)


def test_somebodys_file_is_not_replaced_unasked(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"x")
    (tmp_path / "a.txt").write_text("my own notes")
    tasks = plan(find_inputs([str(tmp_path)]), ["txt"], None)
    with pytest.raises(AsrError, match=r"a\.txt is there already: --resume"):
        refuse_replacing(tasks)
