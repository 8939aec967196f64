"""Corpora go through a narrow door in pieces, are trained on, and the model comes back in pieces."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from asr.manifest import Manifest
from tests.training.words import write_corpus

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "recipes"))

import pack_for_gpu  # noqa: E402
import pieces  # noqa: E402
import train_on_gpu  # noqa: E402


def packed(folder, monkeypatch):
    """The pieces of two corpora called train.jsonl, and these."""
    paths = []
    for name in ("one", "two"):
        manifest = write_corpus(folder / name, 3, seed=len(name) + len(paths))
        paths.append(manifest.rename(manifest.with_name("train.jsonl")))
    monkeypatch.setattr(pack_for_gpu, "PIECE", 50_000)
    monkeypatch.setattr(sys, "argv", ["pack", str(folder / "pieces"), *map(str, paths)])
    pack_for_gpu.main()
    return folder / "pieces", paths


def test_what_is_unpacked_is_what_was_packed(tmp_path, monkeypatch):
    folder, paths = packed(tmp_path, monkeypatch)
    sizes = [path.stat().st_size for path in folder.glob("corpora.tar.*")]
    assert len(sizes) > 3
    assert max(sizes) <= 50_000
    sets = train_on_gpu.unpack(folder, tmp_path / "data")
    assert sets["dev"] == []
    assert [Path(name).name for name in sets["train"]] == ["one-train.jsonl", "two-train.jsonl"]
    for source, target in zip(paths, sets["train"], strict=True):
        before, after = Manifest(source), Manifest(target)
        assert [u.text for u in after] == [u.text for u in before]
        assert [after.read_bytes(u) for u in after] == [before.read_bytes(u) for u in before]


def test_a_missing_or_damaged_piece_is_named(tmp_path, monkeypatch):
    folder, _ = packed(tmp_path, monkeypatch)
    damaged = folder / "corpora.tar.001"
    damaged.write_bytes(damaged.read_bytes()[::-1])
    with pytest.raises(SystemExit, match=r"the pieces of corpora\.tar are damaged"):
        list(pieces.read_joined(folder, "corpora.tar"))
    damaged.unlink()
    with pytest.raises(SystemExit, match=r"corpora\.tar\.001: .*bring all pieces"):
        list(pieces.read_joined(folder, "corpora.tar"))


def test_files_are_split_and_joined(tmp_path):
    contents = {"a.bin": bytes(range(256)) * 5, "empty": b"", "even": b"x" * 200}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        pieces.split(tmp_path / name, tmp_path / "out", 100)
    assert sorted(pieces.join(tmp_path / "out", tmp_path / "whole")) == sorted(contents)
    for name, content in contents.items():
        assert (tmp_path / "whole" / name).read_bytes() == content
    assert len(json.loads((tmp_path / "out" / pieces.LIST).read_text())["even"]["pieces"]) == 2


@pytest.mark.slow
def test_it_trains_and_the_model_comes_back(tmp_path, monkeypatch):
    folder, _ = packed(tmp_path, monkeypatch)
    out = tmp_path / "out"
    sizes = ("model.d_model=16", "model.heads=2", "model.inner=16", "model.rotary_dim=8", "tokenizer.pieces=20")
    settings = [part for s in (*sizes, "schedule.steps=1", "schedule.warmup=1") for part in ("--set", s)]
    script, config = ROOT / "scripts" / "recipes" / "train_on_gpu.py", ROOT / "configs" / "tiny.yaml"
    subprocess.run([sys.executable, script, folder, out, "--config", config, *settings], check=True, cwd=ROOT)
    subprocess.run([sys.executable, script, "--join", out, tmp_path / "model"], check=True, cwd=ROOT)
    for path in (out / "run" / "model").iterdir():
        assert (tmp_path / "model" / path.name).read_bytes() == path.read_bytes()
