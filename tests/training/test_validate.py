import json

import pytest

from asr.nn.features import FeatureConfig
from asr.tokenizer import CtcTokenizer
from asr.training.config import DataConfig
from asr.training.setup import open_manifests
from asr.training.validate import PROBLEMS, validate
from tests.cli.runner import asr
from tests.training.run_asr import CONFIGS
from tests.training.words import WORDS, speak, write_corpus, write_wav

DATA = DataConfig(max_duration=5.0)


@pytest.fixture(scope="module")
def tokenizer():
    return CtcTokenizer.train(list(WORDS), 16)


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path / "train", 8, words=4, seed=1)


def change(manifest, **changes):
    """Changes lines of a manifest: `row_3={"text": ""}`."""
    lines = [json.loads(line) for line in manifest.read_text("utf-8").splitlines()]
    for row, values in changes.items():
        lines[int(row.removeprefix("row_"))].update(values)
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def examine(tokenizer, **splits):
    return validate(
        {split: open_manifests([str(manifest)]) for split, manifest in splits.items()}, tokenizer, DATA, FeatureConfig()
    )


def found(verdict):
    return {(finding.problem, finding.split, finding.name) for finding in verdict.findings}


def test_nothing_is_wrong_with_a_good_corpus(corpus, tmp_path, tokenizer):
    verdict = examine(tokenizer, train=corpus, dev=write_corpus(tmp_path / "dev", 3, seed=2))
    assert verdict.findings == []
    assert not verdict.wrong
    assert [amount[0] for amount in verdict.splits.values()] == [8, 3]


def test_each_problem_is_found_where_it_is_and_nowhere_else(corpus, tokenizer):
    (corpus.parent / "00.wav").write_bytes(b"RIFF no sound at all")
    (corpus.parent / "01.wav").unlink()
    write_wav(corpus.parent / "02.wav", speak("mako sinu teki") * 0)
    change(
        corpus,
        row_2={"duration": len(speak("mako sinu teki")) / 16000},
        row_3={"duration": 3.9},
        row_4={"text": " ?! "},
        row_5={"text": "mako xyz"},
        row_6={"text": " ".join(WORDS * 9)},
    )
    verdict = examine(tokenizer, train=corpus)
    assert verdict.wrong
    assert found(verdict) == {
        ("unreadable audio", "train", "00.wav"),
        ("unreadable audio", "train", "01.wav"),
        ("silent audio", "train", "02.wav"),
        ("duration misstated", "train", "03.wav"),
        ("empty text", "train", "04.wav"),
        ("characters outside the vocabulary", "train", "05.wav"),
        ("too short for its text", "train", "06.wav"),
    }
    details = {finding.name: finding.detail for finding in verdict.findings}
    assert details["05.wav"] == "x y z"
    assert "its manifest says 3.90 s" in details["03.wav"]


def test_too_long_for_training_is_said_but_not_wrong(corpus, tokenizer):
    text = " ".join(WORDS * 2)
    write_wav(corpus.parent / "00.wav", speak(text))
    change(corpus, row_0={"duration": len(speak(text)) / 16000, "text": text})
    verdict = examine(tokenizer, train=corpus)
    assert found(verdict) == {("longer than data.max_duration", "train", "00.wav")}
    assert not verdict.wrong


def test_duplicates(corpus, tokenizer):
    (corpus.parent / "01.wav").write_bytes((corpus.parent / "00.wav").read_bytes())
    lines = [json.loads(line) for line in corpus.read_text("utf-8").splitlines()]
    write_wav(corpus.parent / "03.wav", speak(lines[2]["text"], pitch=200))
    write_wav(corpus.parent / "05.wav", speak(lines[4]["text"], pitch=200))
    change(
        corpus,
        row_1=lines[0] | {"audio_filepath": "01.wav"},
        row_3=lines[2] | {"audio_filepath": "03.wav"},
        row_4={"speaker": "ann"},
        row_5=lines[4] | {"audio_filepath": "05.wav", "speaker": "bob"},  # others may say the same
    )
    verdict = examine(tokenizer, train=corpus)
    assert found(verdict) == {
        ("same audio twice", "train", "01.wav"),
        ("same text and duration twice", "train", "03.wav"),
    }
    assert "00.wav" in verdict.findings[0].detail


def test_few_words_of_the_same_length_are_chance(corpus, tokenizer):
    for row in (0, 1):
        write_wav(corpus.parent / f"0{row}.wav", speak("mako sinu teki", pitch=100 + 50 * row))
    line = {"duration": len(speak("mako sinu teki")) / 16000, "text": "mako sinu teki"}
    change(corpus, row_0=line, row_1=line)
    assert examine(tokenizer, train=corpus).findings == []


def test_what_train_must_not_share(corpus, tmp_path, tokenizer):
    test = write_corpus(tmp_path / "test", 4, seed=5)
    (test.parent / "00.wav").write_bytes((corpus.parent / "03.wav").read_bytes())
    train_lines = [json.loads(line) for line in corpus.read_text("utf-8").splitlines()]
    write_wav(test.parent / "01.wav", speak(train_lines[4]["text"], pitch=200))
    change(
        test,
        row_0=train_lines[3] | {"audio_filepath": "00.wav", "speaker": "ann"},
        row_1=train_lines[4] | {"audio_filepath": "01.wav"},
        row_2={"speaker": "ann"},
    )
    change(corpus, row_0={"speaker": "ann"}, row_1={"speaker": "eve"})
    verdict = examine(tokenizer, train=corpus, test=test)
    assert found(verdict) == {
        ("audio that train has", "test", "00.wav"),
        ("text and duration that train has", "test", "01.wav"),
        ("speaker whom train has", "test", "ann"),
    }
    assert verdict.findings[-1].detail == f"2 in {test}, 1 in {corpus}"


def test_parts_of_one_recording_are_no_duplicates(tmp_path, tokenizer):
    write_wav(tmp_path / "long.wav", speak("mako sinu teki numa kota sime"))
    line = {"audio_filepath": "long.wav", "duration": 1.0}
    lines = [line | {"offset": 0.0, "text": "mako"}, line | {"offset": 1.0, "text": "teki"}]
    manifest = tmp_path / "m.jsonl"
    manifest.write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    assert examine(tokenizer, train=manifest).findings == []


def test_the_command_shows_a_table_or_json_and_its_status_tells(corpus, tmp_path):
    dev = write_corpus(tmp_path / "dev", 3, seed=2)
    settings = ["--set", f"data.train={corpus}", "--set", f"data.dev={dev}", "--set", "tokenizer.pieces=16"]
    good = asr("validate-data", CONFIGS / "tiny.yaml", *settings)
    assert good.returncode == 0, good.stderr
    assert all(problem in good.stdout for problem in PROBLEMS)
    change(corpus, row_4={"text": ""})
    bad = asr("validate-data", CONFIGS / "tiny.yaml", *settings, "--test", dev, "--json")
    assert bad.returncode == 1
    verdict = json.loads(bad.stdout)
    assert verdict["wrong"] is True
    assert verdict["problems"]["empty text"] == 1
    assert verdict["splits"]["test"]["utterances"] == 3
    none = asr("validate-data", CONFIGS / "tiny.yaml", "--set", "data.train=[]", "--set", "data.dev=[]")
    assert none.returncode == 2
    assert "data.train: names no manifest" in none.stderr
