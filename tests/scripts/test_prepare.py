"""scripts/corpora/prepare.py: corpora of known shapes become manifests that can be trained on."""

import gzip
import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr.manifest import Manifest

SCRIPT = Path(__file__).parents[2] / "scripts" / "corpora" / "prepare.py"


@pytest.fixture
def prepare(monkeypatch, capsys):
    """`prepare("folder", ...)` runs the script with these arguments: its status and what it says."""

    def run(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        said = capsys.readouterr()
        return ended.value.code, said.out + said.err

    return run


def sound(path: Path, seconds: float, rate: int = 16000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, 0.1 * np.sin(np.arange(round(seconds * rate)) / 9), rate)
    return path


def words(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def listed(manifest: Path) -> list[tuple[float, str, str | None]]:
    """Real length of the audio, text and speaker of each line, whose stated lengths are right."""
    utterances = Manifest(manifest, require_text=False)
    lengths = [len(utterances.read_audio(u)) / 16000 for u in utterances]
    assert [u.duration for u in utterances] == pytest.approx(lengths, abs=0.03)
    return [(round(s, 2), u.text, u.extra.get("speaker")) for s, u in zip(lengths, utterances, strict=True)]


# ---- a folder of sounds and texts ----


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    for number, name in enumerate(("ann/a.wav", "ann/b.flac", "bob/deep/c.aiff", "d.WAV")):
        sound(source / name, 0.5 + number / 4)
        words(source / Path(name).with_suffix(".txt"), f"\ufeffsome words,\n  and {number}\n")
    return source


def test_a_folder_of_sounds_and_texts(prepare, folder, tmp_path):
    status, said = prepare("folder", folder, tmp_path / "out", "--speakers")
    assert status == 0
    assert "train.jsonl: 4 utterances, 0.1 min, 2 speakers" in said
    assert listed(tmp_path / "out" / "train.jsonl") == [
        (0.5, "some words, and 0", "ann"),
        (0.75, "some words, and 1", "ann"),
        (1.0, "some words, and 2", "bob"),
        (1.25, "some words, and 3", None),
    ]


def test_what_cannot_be_used_is_left_out_and_counted(prepare, folder, tmp_path):
    (folder / "ann" / "a.wav").write_bytes(b"RIFF nothing")
    (folder / "ann" / "b.txt").unlink()
    (folder / "bob" / "deep" / "c.txt").write_bytes(b"\xff\xfe\xff")
    words(folder / "d.txt", " \n")
    sound(folder / "good.wav", 1)
    words(folder / "good.txt", "good")
    status, said = prepare("folder", folder, tmp_path / "out")
    assert status == 0
    for reason in ("audio cannot be read", "without a .txt beside it", "text is not UTF-8", "without text"):
        assert reason in said
    assert listed(tmp_path / "out" / "train.jsonl") == [(1.0, "good", None)]


def test_manifests_inside_the_corpus_can_be_moved_with_it(prepare, folder, tmp_path):
    assert prepare("folder", folder, folder)[0] == 0
    moved = folder.rename(tmp_path / "elsewhere")
    assert len(listed(moved / "train.jsonl")) == 4


def test_a_tar_holds_all_that_is_needed(prepare, folder, tmp_path):
    before = tmp_path / "before"
    prepare("folder", folder, before)
    assert prepare("folder", folder, tmp_path / "out", "--tar")[0] == 0
    expected = listed(before / "train.jsonl")
    folder.rename(tmp_path / "gone")
    assert listed(tmp_path / "out" / "train.jsonl") == expected
    (tmp_path / "gone").rename(folder)
    status, said = prepare("folder", folder, tmp_path / "out")
    assert status == 2
    assert "train.tar: is in the way" in said


def test_speakers_are_not_torn_apart_between_train_and_dev(prepare, tmp_path):
    for speaker in range(10):
        for number in range(4):
            audio = sound(tmp_path / "source" / f"s{speaker}" / f"{number}.wav", 0.3)
            words(audio.with_suffix(".txt"), "x")
    assert prepare("folder", tmp_path / "source", tmp_path / "out", "--speakers", "--dev", "0.2")[0] == 0
    train, dev = ({u[2] for u in listed(tmp_path / "out" / f"{name}.jsonl")} for name in ("train", "dev"))
    assert len(train) == 8
    assert len(dev) == 2
    assert not train & dev
    assert prepare("folder", tmp_path / "source", tmp_path / "other", "--dev", "0.2")[0] == 0
    assert len(listed(tmp_path / "other" / "train.jsonl")) + len(listed(tmp_path / "other" / "dev.jsonl")) == 40


@pytest.mark.parametrize("name", ["folder", "librispeech", "ljspeech", "commonvoice", "lhotse"])
def test_what_is_not_there_or_empty_is_said_in_one_line(prepare, tmp_path, name):
    for source in (tmp_path / "none", tmp_path):
        status, said = prepare(name, source, tmp_path / "out")
        assert status == 2
        assert said.startswith(f"prepare {name}: ")
        assert said.count("\n") == 1


# ---- corpora of known shapes ----


def test_librispeech(prepare, tmp_path):
    for subset, speaker in (("dev-clean", "84"), ("train-clean-100", "1034")):
        chapter = tmp_path / subset / speaker / "7"
        sound(chapter / f"{speaker}-7-0000.flac", 1)
        sound(chapter / f"{speaker}-7-0001.flac", 2)
        words(chapter / f"{speaker}-7.trans.txt", f"{speaker}-7-0000 GO DO YOU HEAR\n{speaker}-7-0001 I'M HERE\n")
    words(tmp_path / "SPEAKERS.TXT", "about")
    assert prepare("librispeech", tmp_path, tmp_path / "out")[0] == 0
    assert listed(tmp_path / "out" / "dev-clean.jsonl") == [(1.0, "go do you hear", "84"), (2.0, "i'm here", "84")]
    assert len(listed(tmp_path / "out" / "train-clean-100.jsonl")) == 2
    assert prepare("librispeech", tmp_path / "dev-clean", tmp_path / "one")[0] == 0
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["dev-clean.jsonl"]


def test_common_voice(prepare, tmp_path):
    header = "client_id\tpath\tsentence\tup_votes\tage\taccents\n"
    for number, split in enumerate(("train", "dev", "test")):
        sound(tmp_path / "clips" / f"{split}.mp3", 1 + number, 32000)
        words(tmp_path / f"{split}.tsv", f'{header}c{number}\t{split}.mp3\t"Really?" he asked.\t2\ttwenties\t\n')
    assert prepare("commonvoice", tmp_path, tmp_path / "out")[0] == 0
    for number, split in enumerate(("train", "dev", "test")):
        [(seconds, text, speaker)] = listed(tmp_path / "out" / f"{split}.jsonl")
        assert (text, speaker) == ('"Really?" he asked.', f"c{number}")
        assert seconds == pytest.approx(1 + number, abs=0.1)
    extra = Manifest(tmp_path / "out" / "dev.jsonl")[0].extra
    assert extra == {"speaker": "c1", "age": "twenties", "written": '"Really?" he asked.'}
    words(tmp_path / "other.tsv", "path\ttext\n")
    status, said = prepare("commonvoice", tmp_path, tmp_path / "out", "--splits", "other")
    assert status == 2
    assert "has no column sentence" in said


def test_lj_speech(prepare, tmp_path):
    sound(tmp_path / "wavs" / "LJ1.wav", 1, 22050)
    sound(tmp_path / "wavs" / "LJ2.wav", 2, 22050)
    words(tmp_path / "metadata.csv", "LJ1|In 1984.|In nineteen eighty-four.\nLJ2|Two columns\nLJ3|gone|gone\n")
    status, said = prepare("ljspeech", tmp_path, tmp_path / "out")
    assert status == 0
    assert "1 whose audio is not there" in said
    utterances = Manifest(tmp_path / "out" / "train.jsonl")
    assert [u.text for u in utterances] == ["In nineteen eighty-four.", "Two columns"]
    assert utterances[0].extra == {"speaker": "LJ", "written": "In 1984."}


# ---- Lhotse ----


def cut(source: str, start: float, duration: float, *texts: tuple[float, float, str], **changes) -> dict:
    """A cut as Lhotse 1.3 writes it, with supervisions of (start, duration, text)."""
    supervisions = [
        {"id": f"s{i}", "recording_id": "r", "start": s, "duration": d, "channel": 0, "text": text, "speaker": "ann"}
        for i, (s, d, text) in enumerate(texts)
    ]
    recording = {
        "id": "r",
        "sources": [{"type": "file", "channels": [0], "source": source}],
        "sampling_rate": 16000,
        "num_samples": 160000,
        "duration": 10.0,
        "channel_ids": [0],
    } | changes.pop("recording", {})
    return {
        "id": "c",
        "start": start,
        "duration": duration,
        "channel": 0,
        "supervisions": supervisions,
        "recording": recording,
        "type": "MonoCut",
    } | changes


@pytest.mark.parametrize("tar", [(), ("--tar",)])
@pytest.mark.parametrize("packed", [False, True])
def test_a_lhotse_cut_set(prepare, tmp_path, packed, tar):
    sound(tmp_path / "long.wav", 10)
    cuts = [
        cut("long.wav", 0, 10, (0, 10, "all of it")),
        cut("long.wav", 2, 3, (0.5, 2, "a part with silence around")),
        cut(str(tmp_path / "long.wav"), 4, 5, (0, 1.5, "first"), (2, 2.5, "second")),
        cut("long.wav", 0, 10),
        cut("long.wav", 0, 10, (0, 10, "")),
        cut("long.wav", 0, 10, (0, 10, "mixed"), type="MixedCut"),
        cut("long.wav", 0, 10, (0, 10, "fast"), recording={"transforms": [{"name": "Speed"}]}),
        cut("long.wav", 0, 10, (0, 10, "stereo"), recording={"channel_ids": [0, 1]}),
        cut("gone.wav", 0, 10, (0, 10, "gone")),
    ]
    text = "".join(json.dumps(c) + "\n" for c in cuts)
    source = tmp_path / ("cuts.jsonl.gz" if packed else "cuts.jsonl")
    source.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    status, said = prepare("lhotse", source, tmp_path / "out", *tar)
    assert status == 0
    assert said.count("left out") == 6
    manifest = tmp_path / "out" / "cuts.jsonl"
    assert listed(manifest) == [
        (10.0, "all of it", "ann"),
        (3.0, "a part with silence around", "ann"),
        (1.5, "first", "ann"),
        (2.5, "second", "ann"),
    ]
    assert [u.offset for u in Manifest(manifest)] == ([None] * 4 if tar else [None, 2.0, 4.0, 6.0])


def test_the_audio_of_a_cut_is_that_which_lhotse_reads(prepare, tmp_path):
    lhotse = pytest.importorskip("lhotse")
    audio = sound(tmp_path / "long.wav", 6)
    recording = lhotse.Recording.from_file(audio)
    said = [(0.5, 2.0, "one"), (3.0, 1.25, "two")]
    supervisions = [lhotse.SupervisionSegment(f"s{i}", recording.id, s, d, text=t) for i, (s, d, t) in enumerate(said)]
    whole = lhotse.MonoCut("c", 0, recording.duration, 0, supervisions, recording=recording)
    cuts = lhotse.CutSet.from_cuts([whole]).trim_to_supervisions(keep_overlapping=False)
    cuts.to_file(tmp_path / "cuts.jsonl.gz")
    assert prepare("lhotse", tmp_path / "cuts.jsonl.gz", tmp_path / "out")[0] == 0
    manifest = Manifest(tmp_path / "out" / "cuts.jsonl")
    assert [u.text for u in manifest] == ["one", "two"]
    for utterance, original in zip(manifest, cuts, strict=True):
        np.testing.assert_allclose(manifest.read_audio(utterance), original.load_audio()[0], atol=1e-4)


@pytest.mark.parametrize("content", [b"{", b"\x1f\x8b\x08broken", b'{"id": "c"}', b'{"recording": {"sources": []}}'])
@pytest.mark.parametrize("name", ["cuts.jsonl", "cuts.jsonl.gz"])
def test_a_file_that_is_no_cut_set_is_refused(prepare, tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    status, said = prepare("lhotse", tmp_path / name, tmp_path / "out")
    assert status == 2
    assert said.count("\n") == 1
