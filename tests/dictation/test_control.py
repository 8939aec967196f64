"""Orders from another process, through a socket that is its user's alone."""

from __future__ import annotations

import stat
import subprocess
import sys

import pytest

pytest.importorskip("fcntl", reason="hot keys are for Linux and macOS")

from asr.dictation.control import Control, Order, runtime_folder, send
from asr.errors import DesktopError


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "asr"


def mode(path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_orders_of_another_process_arrive_and_are_answered(folder):
    code = "from asr.dictation.control import Order, send; print(send(Order.toggle))"
    with Control(lambda order: f"{order.value} it is"):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "toggle it is\n", done.stderr


def test_folder_and_socket_are_their_users_alone(folder):
    with Control(lambda order: ""):
        assert mode(folder) == 0o700
        assert {mode(file) for file in folder.iterdir()} == {0o600}
        assert (folder / "dictate.sock").exists()
    assert not (folder / "dictate.sock").exists()


@pytest.mark.parametrize("others", [0o770, 0o701])
def test_a_folder_that_is_open_to_others_is_refused(folder, others):
    folder.mkdir()
    folder.chmod(others)
    with pytest.raises(DesktopError, match="not a folder of yours alone"):
        send(Order.toggle)


def test_a_link_in_its_place_is_refused(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DesktopError, match="not a folder of yours alone"):
        runtime_folder()


def test_without_a_dictation_nobody_answers_also_after_one_that_crashed(folder):
    assert send(Order.end) is None
    code = "import os; from asr.dictation.control import Control; Control(str).__enter__(); os._exit(1)"
    subprocess.run([sys.executable, "-c", code])
    assert (folder / "dictate.sock").exists()
    assert send(Order.end) is None
    with Control(lambda order: "yes"):
        assert send(Order.end) == "yes"


def test_a_second_dictation_is_refused_and_the_first_goes_on():
    with Control(lambda order: "first"):
        with pytest.raises(DesktopError, match="runs already: asr dictate --quit"), Control(lambda order: "second"):
            pass
        assert send(Order.end) == "first"
