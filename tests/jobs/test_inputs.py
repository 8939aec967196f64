"""What the command line names is what is transcribed: files, folders, patterns, lists, manifests."""

import io
import json
import os
import tarfile

import numpy as np
import pytest
import soundfile

from asr.audio.files import read_audio
from asr.errors import AsrError, ManifestError
from asr.jobs.inputs import find_inputs
from asr.jobs.plan import plan
from tests.audio.makers import chirp, with_soundfile

WAV = with_soundfile(chirp(0.2, 16000), "WAV", rate=16000)


@pytest.fixture
def tree(tmp_path):
    for name in ("b.wav", "a.MP3", "x/y/c.flac", "x/notes.txt", ".hidden.wav", ".git/d.wav", "x/y/e[1].opus"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(WAV)
    return tmp_path


def places(inputs):
    return [item.place for item in inputs]


def test_a_folder_is_all_its_sound_files_in_order(tree):
    assert places(find_inputs([str(tree)])) == ["a.MP3", "b.wav", "x/y/c.flac", "x/y/e[1].opus"]


def test_a_folder_without_sound_stays_in_the_list_and_fails(tmp_path):
    (item,) = find_inputs([str(tmp_path)])
    assert item.error == "a folder without sound files"


def test_patterns_match_any_name_and_any_depth(tree):
    assert places(find_inputs([f"{tree}/*.wav"])) == ["b.wav"]
    assert places(find_inputs([f"{tree}/**/*.txt"])) == ["notes.txt"]
    assert places(find_inputs([f"{tree}/x/*"])) == ["notes.txt", "c.flac", "e[1].opus"]


def test_a_name_with_brackets_is_a_name_where_there_is_such_a_file(tree):
    assert places(find_inputs([f"{tree}/x/y/e[1].opus"])) == ["e[1].opus"]


def test_what_is_not_there_stays_in_the_list(tmp_path):
    names = [str(tmp_path / "missing.wav"), str(tmp_path / "*.wav"), "no\0name"]
    assert [item.path for item in find_inputs(names)] == names


@pytest.mark.parametrize("separator", ["\n", "\r\n", "\0"])
def test_a_list_names_inputs(tree, separator):
    listed = tree / "list"
    listed.write_text(separator.join([str(tree / "b.wav"), "", str(tree / "x"), ""]), "utf-8", newline="")
    assert places(find_inputs([], str(listed))) == ["b.wav", "y/c.flac", "y/e[1].opus"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_a_list_is_read_as_its_byte_order_mark_says(tree, encoding):
    """PowerShell's `>` writes UTF-16, in which every other byte of an English name is NUL."""
    (tree / "Привет 語.wav").write_bytes(WAV)
    listed = tree / "list"
    text = f"{tree / 'b.wav'}\r\n{tree / 'Привет 語.wav'}\r\n"
    listed.write_bytes((text if encoding == "utf-8-sig" else "\ufeff" + text).encode(encoding))
    assert places(find_inputs([], str(listed))) == ["b.wav", "Привет 語.wav"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", ["/a/./b.wav", "語/./語/語.wav\n", "..\n/\n"])
def test_a_list_in_unmarked_utf_16_is_refused(tree, encoding, text):
    """Split at its NULs it would name "/" and ".", and the whole machine would be transcribed."""
    (tree / "list").write_bytes(text.encode(encoding))
    with pytest.raises(AsrError, match="UTF-16 without a byte order mark"):
        find_inputs([], str(tree / "list"))


def test_a_list_that_is_cut_within_a_letter_is_refused(tree):
    (tree / "list").write_bytes("\ufeffa.wav".encode("utf-16-le")[:-1])
    with pytest.raises(AsrError, match="damaged UTF-16"):
        find_inputs([], str(tree / "list"))


def test_a_list_that_never_ends_is_refused():
    with pytest.raises(AsrError, match="not a list of files"):
        find_inputs([], "/dev/zero")


def test_patterns_of_a_list_walk_no_folders(tree):
    (tree / "list").write_text(f"{tree}/*\n{tree}/x/y\n")
    assert places(find_inputs([], str(tree / "list"))) == ["a.MP3", "b.wav", "list", "c.flac", "e[1].opus"]


def test_linked_folders_are_walked_once_and_circles_end(tree, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "f.wav").write_bytes(WAV)
    (elsewhere / "back").symlink_to(tree)
    (tree / "link").symlink_to(elsewhere)
    (tree / "again").symlink_to(elsewhere)
    (tree / "a link to x").symlink_to(tree / "x")
    expected = ["a.MP3", "again/f.wav", "b.wav", "x/y/c.flac", "x/y/e[1].opus"]
    assert places(find_inputs([str(tree)])) == expected


@pytest.mark.skipif(not os.path.ismount("/proc"), reason="needs a /proc")
@pytest.mark.parametrize("folder", ["/proc", "/proc/self", "/proc/self/fd"])
def test_nothing_in_the_kernels_folders_is_seen(tree, monkeypatch, folder):
    monkeypatch.chdir(tree)  # /proc/self/cwd links to it
    (item,) = find_inputs([folder])
    assert item.error == "a folder without sound files"
    (tree / "link").symlink_to(folder)
    assert len(find_inputs([str(tree)])) == 4


def test_what_this_process_alone_can_read_is_told(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    names = ["-", str(tmp_path / "pipe"), "/dev/null", str(tmp_path / "missing.wav"), __file__]
    assert [item.piped for item in find_inputs(names)] == [True, True, True, False, False]


def test_a_list_comes_from_standard_input_too(tree, monkeypatch):
    class Piped:
        buffer = io.BytesIO(f"{tree / 'b.wav'}\n".encode())

    monkeypatch.setattr("sys.stdin", Piped)
    assert places(find_inputs(["-"], "-")) == ["stdin", "b.wav"]


def test_a_list_that_is_missing_is_wrong_usage(tmp_path):
    with pytest.raises(AsrError, match="cannot be read"):
        find_inputs([], str(tmp_path / "list"))


def test_a_manifest_names_loose_audio_and_audio_in_its_tar(tmp_path):
    (tmp_path / "loose.wav").write_bytes(WAV)
    with tarfile.open(tmp_path / "set.tar", "w") as tar:
        member = tarfile.TarInfo("in/tar.wav")
        member.size = len(WAV)
        tar.addfile(member, io.BytesIO(WAV))
    lines = [{"audio_filepath": name, "duration": 0.2} for name in ("loose.wav", "in/tar.wav", "nowhere.wav")]
    (tmp_path / "set.jsonl").write_text("\n".join(map(json.dumps, lines)))
    loose, packed, nowhere = find_inputs([str(tmp_path / "set.jsonl")])
    assert [len(read_audio(item.open())) for item in (loose, packed)] == [3200, 3200]
    assert packed.place == "in/tar.wav"
    assert packed.name.endswith("set.jsonl:in/tar.wav")
    with pytest.raises(ManifestError, match=r"nowhere\.wav"):
        nowhere.open()


def test_a_manifest_names_parts_of_a_recording(tmp_path):
    """As NeMo's manifests do; each part is an input with outputs of its own."""
    samples = np.linspace(-0.5, 0.5, 16000, dtype=np.float32)
    soundfile.write(tmp_path / "talk.v1.wav", samples, 16000, "FLOAT")
    lines = [{"audio_filepath": "talk.v1.wav", "offset": begin, "duration": 0.25} for begin in (0, 0.5)]
    (tmp_path / "set.jsonl").write_text("\n".join(map(json.dumps, lines)))
    parts = find_inputs([str(tmp_path / "set.jsonl")])
    assert places(parts) == ["talk.v1-0.00-0.25.wav", "talk.v1-0.50-0.75.wav"]
    assert len(plan(parts, ["txt"], tmp_path)) == 2
    for part, begin in zip(parts, (0, 8000), strict=True):
        np.testing.assert_allclose(read_audio(part.open()), samples[begin : begin + 4000], atol=1e-4)


@pytest.mark.parametrize("name", [".", "..", "/", "./", "//"])
def test_a_list_does_not_walk_what_it_does_not_name_in_full(tree, monkeypatch, name):
    """What a damaged list is read as must not be the whole machine."""
    monkeypatch.chdir(tree)
    (tree / "list").write_text(f"{name}\n")
    (item,) = find_inputs([], "list")
    assert item.error == "a list names folders in full, not as . or /"
