"""Files are there whole or not at all."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from asr.files import PARTIAL, replacing, sweep, write_whole


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_written_with_its_folder(tmp_path, durable):
    path = tmp_path / "new" / "a.txt"
    write_whole(path, "wörds", durable=durable)
    assert path.read_text("utf-8") == "wörds"
    assert os.listdir(path.parent) == ["a.txt"]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_half(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_whole(path, "old")
    monkeypatch.setattr(Path, "replace", lambda self, target: (_ for _ in ()).throw(OSError(28, "No space")))
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_name_as_long_as_the_system_allows_can_be_written(tmp_path):
    path = tmp_path / ("x" * 251 + ".txt")
    write_whole(path, "words")
    assert path.read_text() == "words"


def test_of_a_link_the_file_behind_it_is_replaced_with_its_permissions(tmp_path):
    path, link = tmp_path / "a.txt", tmp_path / "link.txt"
    path.write_text("old")
    path.chmod(0o600)
    link.symlink_to(path)
    write_whole(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(pipe.read_text)
        write_whole(pipe, "words")
        assert read.result(10) == "words"
    assert pipe.is_fifo()


def test_a_folder_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(IsADirectoryError), replacing(tmp_path):
        pytest.fail("the block must not begin")


def test_what_killed_processes_left_half_written_is_swept(tmp_path):
    path, other = tmp_path / "a.txt", tmp_path / "b.txt"
    for file in (path, other):
        with replacing(file) as partial:
            partial.write_text("half")
            partial.rename(partial.with_name(partial.name.replace(str(os.getpid()), "123")))
            file.write_text("")
            partial.write_text("whole")
    assert len(list(tmp_path.glob(f".*{PARTIAL}"))) == 2
    sweep(path)
    assert len(list(tmp_path.glob(f".*{PARTIAL}"))) == 1
