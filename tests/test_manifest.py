"""Manifests: their lines, the tar beside them, loose files, and what is said when something is wrong."""

import io
import json
import multiprocessing
import pickle
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr.audio.files import AudioFile
from asr.errors import ManifestError
from asr.manifest import Manifest, Utterance
from tests.audio.makers import film


def wav(seconds: float, rate: int = 16000) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, 0.5 * np.sin(np.arange(round(seconds * rate)) / 20), rate, format="WAV")
    return buffer.getvalue()


def write_manifest(path: Path, *lines: dict | str) -> Path:
    text = "".join((line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")
    return path


def line(audio: str = "a.wav", **more) -> dict:
    return {"audio_filepath": audio, "duration": 1.0, "text": "some words", **more}


@pytest.fixture
def packed(tmp_path: Path) -> Manifest:
    """Ten utterances of different lengths in a tar."""
    names = [f"dir/ü {number}.wav" for number in range(10)]
    with tarfile.open(tmp_path / "test.tar", "w") as tar:
        for number, name in enumerate(names):
            data = wav(0.1 * (number + 1))
            member = tarfile.TarInfo(f"./{name}" if number % 2 else name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return Manifest(write_manifest(tmp_path / "test.jsonl", *(line(name, speaker="x") for name in names)))


def lengths(manifest: Manifest) -> list[int]:
    return [len(manifest.read_audio(utterance)) for utterance in manifest]


EXPECTED = [1600 * (number + 1) for number in range(10)]


def test_sequence_of_utterances(packed: Manifest):
    assert len(packed) == 10
    assert packed[0] == Utterance("dir/ü 0.wav", 1.0, "some words", {"speaker": "x"})
    assert packed[-1].audio == "dir/ü 9.wav"
    assert [utterance.audio for utterance in packed[2:4]] == ["dir/ü 2.wav", "dir/ü 3.wav"]


def test_audio_from_the_tar(packed: Manifest):
    assert packed.read_bytes(packed[3]) == wav(0.4)
    assert lengths(packed) == EXPECTED
    assert len(packed.read_audio(packed[9], sample_rate=8000)) == 8000


def test_shared_by_threads(packed: Manifest):
    with ThreadPoolExecutor(8) as pool:
        sizes = list(pool.map(lambda utterance: len(packed.read_audio(utterance)), list(packed) * 5))
    assert sizes == EXPECTED * 5


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_shared_by_processes(packed: Manifest, method: str):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(lengths, [packed, packed]) == [EXPECTED, EXPECTED]


def test_pickled(packed: Manifest):
    assert lengths(pickle.loads(pickle.dumps(packed))) == EXPECTED


def test_loose_files_relative_and_absolute(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a b.wav").write_bytes(wav(0.25))
    absolute = tmp_path / "other.wav"
    absolute.write_bytes(wav(0.5))
    manifest = Manifest(write_manifest(tmp_path / "m.jsonl", line("sub/a b.wav"), "", line(str(absolute))))
    assert lengths(manifest) == [4000, 8000]


def test_parts_of_a_recording(tmp_path: Path):
    (tmp_path / "long.wav").write_bytes(wav(3))
    parts = [line("long.wav", offset=offset, duration=0.5) for offset in (0, 1.25, 2.75)]
    manifest = Manifest(write_manifest(tmp_path / "m.jsonl", *parts, line("long.wav", duration=3)))
    assert lengths(manifest) == [8000, 8000, 4000, 48000]
    np.testing.assert_array_equal(manifest.read_audio(manifest[1]), manifest.read_audio(manifest[3])[20000:28000])
    assert manifest[1].offset == 1.25
    assert "offset" not in manifest[1].extra


def test_audio_that_is_not_what_the_manifest_says_is_told(tmp_path: Path):
    whole = wav(2.0)
    (tmp_path / "a.wav").write_bytes(whole)
    (tmp_path / "cut.wav").write_bytes(whole[: len(whole) // 2])
    lines = [
        {"audio_filepath": "a.wav", "duration": 2.0, "text": "fine"},
        {"audio_filepath": "a.wav", "duration": 3.0, "text": "misstated"},
        {"audio_filepath": "a.wav", "duration": 1.0, "offset": 0.9, "text": "fine"},
        {"audio_filepath": "a.wav", "duration": 1.0, "offset": 1.5, "text": "beyond"},
        {"audio_filepath": "cut.wav", "duration": 1.0, "text": "cut"},
    ]
    path = tmp_path / "set.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    manifest, told = Manifest(path), []
    lengths = [len(manifest.read_audio(utterance, 16000, told.append)) for utterance in manifest]
    assert lengths == pytest.approx([32000, 32000, 16000, 8000, 16000], abs=50)
    assert told[0] == f"{path}: its audio 'a.wav': 2.00 s long, its manifest says 3.00 s"
    assert told[1] == f"{path}: its audio 'a.wav': reaches to 2.50 s of 2.00 s"
    assert "cut.wav': " in told[2]
    assert "cut off" in told[2]
    assert len(told) == 3


def test_a_part_after_the_end_of_its_recording_is_refused(tmp_path: Path):
    (tmp_path / "a.wav").write_bytes(wav(1.0))
    line = {"audio_filepath": "a.wav", "duration": 1.0, "offset": 5.0, "text": "nothing"}
    (tmp_path / "set.jsonl").write_text(json.dumps(line))
    manifest = Manifest(tmp_path / "set.jsonl")
    with pytest.raises(ManifestError, match=r"begins at 5\.00 s of 1\.00 s: there is no sound"):
        manifest.read_audio(manifest[0])


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs a device that never ends")
def test_what_never_ends_is_refused(tmp_path: Path):
    line = {"audio_filepath": "/dev/zero", "duration": 1.0, "text": "nothing"}
    (tmp_path / "set.jsonl").write_text(json.dumps(line))
    manifest = Manifest(tmp_path / "set.jsonl")
    with pytest.raises(ManifestError, match="'/dev/zero' cannot be read: not a file"):
        manifest.read_audio(manifest[0])
    with pytest.raises(ManifestError, match="line 1: not JSON"):
        Manifest("/dev/zero")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_a_byte_order_mark_tells_the_encoding(tmp_path: Path, encoding: str):
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    line = json.dumps({"audio_filepath": "a.wav", "duration": 1.0, "text": "é"}, ensure_ascii=False)
    (tmp_path / "set.jsonl").write_bytes(f"{mark}{line}\r\n".encode(encoding))
    assert [u.text for u in Manifest(tmp_path / "set.jsonl")] == ["é"]


def test_what_is_odd_about_a_sound_but_no_damage_is_no_trouble(tmp_path: Path):
    sound = np.sin(np.arange(16000) / 20).astype(np.float32)
    (tmp_path / "a.mkv").write_bytes(film([[(0.0, sound)]] * 2, "matroska", "pcm_s16le", 1.0))
    sound[8000] = 1e5
    soundfile.write(tmp_path / "a.wav", sound, 16000, subtype="FLOAT")
    manifest = Manifest(write_manifest(tmp_path / "m.jsonl", line("a.mkv"), line("a.wav")))
    told: list[str] = []
    for utterance in manifest:
        with AudioFile(tmp_path / utterance.audio) as file:
            assert len(list(file.blocks()))
            assert file.warning is not None
        manifest.read_audio(utterance, warn=told.append)
    assert not told


def test_text_is_needed_only_on_demand(tmp_path: Path):
    lines = [line(text=""), line(text=None), {"audio_filepath": "a.wav", "duration": 1}]
    path = write_manifest(tmp_path / "m.jsonl", *lines)
    assert [utterance.text for utterance in Manifest(path, require_text=False)] == ["", "", ""]
    for entry in lines:
        with pytest.raises(ManifestError, match="line 1: text is"):
            Manifest(write_manifest(path, entry))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{nonsense", "line 2: not JSON"),
        ("[1, 2]", "line 2: not a JSON object"),
        ({"duration": 1, "text": "x"}, "line 2: audio_filepath is missing"),
        ({"audio_filepath": "a.wav", "text": "x"}, "line 2: duration is missing"),
        ({"audio_filepath": "a.wav", "duration": 1}, "line 2: text is missing"),
        (line(audio=""), "line 2: audio_filepath is not the name of a file"),
        (line(audio=7), "line 2: audio_filepath is not the name of a file but 7"),
        (line(duration="1"), "line 2: duration is not a number of seconds but '1'"),
        (line(duration=True), "line 2: duration is not a number"),
        (line(duration=None), "line 2: duration is not a number"),
        (line(duration=0), "line 2: duration is not positive"),
        (line(duration=-2.5), "line 2: duration is not positive and finite but -2.5"),
        (line(duration=float("nan")), "line 2: duration is not positive"),
        (line(duration=float("inf")), "line 2: duration is not positive"),
        (line(duration=10**400), "line 2: duration is not positive and finite"),
        (line(offset=10**400), "line 2: offset is not at least 0 and finite"),
        (line(offset="1"), "line 2: offset is not a number of seconds but '1'"),
        (line(offset=True), "line 2: offset is not a number"),
        (line(offset=-1), "line 2: offset is not at least 0 and finite but -1"),
        (line(offset=float("nan")), "line 2: offset is not at least 0"),
        (line(text=["x"]), "line 2: text is not a string"),
        (line(text="  "), "line 2: text is empty"),
    ],
)
def test_bad_line_is_named(tmp_path: Path, bad: dict | str, message: str):
    with pytest.raises(ManifestError, match=message) as caught:
        Manifest(write_manifest(tmp_path / "m.jsonl", line(), bad, line()))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such manifest"), (b"", "empty manifest"), (b"\n \n", "empty manifest"), (b"\xff\xfe\x00", "not UTF-8")],
)
def test_bad_manifest(tmp_path: Path, content: bytes | None, message: str):
    path = tmp_path / "m.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ManifestError, match=message):
        Manifest(path)


def test_folder_is_no_manifest(tmp_path: Path):
    with pytest.raises(ManifestError, match="cannot be read"):
        Manifest(tmp_path)


def test_missing_audio(tmp_path: Path, packed: Manifest):
    for manifest in (packed, Manifest(write_manifest(tmp_path / "loose.jsonl", line("gone.wav")))):
        for read in (manifest.read_bytes, manifest.read_audio):
            with pytest.raises(ManifestError, match=r"'gone\.wav' is not"):
                read(Utterance("gone.wav", 1.0, "x"))


def test_audio_that_is_none(tmp_path: Path):
    (tmp_path / "a.wav").write_text("no sound")
    manifest = Manifest(write_manifest(tmp_path / "m.jsonl", line()))
    with pytest.raises(ManifestError, match=r"'a\.wav' cannot be decoded: not a sound"):
        manifest.read_audio(manifest[0])


def test_tar_that_is_none(tmp_path: Path):
    (tmp_path / "m.tar").write_bytes(b"nonsense" * 200)
    with pytest.raises(ManifestError, match="not an uncompressed tar"):
        Manifest(write_manifest(tmp_path / "m.jsonl", line()))


def test_tar_that_was_cut_off_later(packed: Manifest):
    tar = packed.path.with_suffix(".tar")
    tar.write_bytes(tar.read_bytes()[:1000])
    with pytest.raises(ManifestError, match="cut off"):
        packed.read_bytes(packed[0])
