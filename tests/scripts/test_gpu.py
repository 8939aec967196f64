"""Corpora go through a narrow door in pieces, are trained on, and the model comes back in pieces."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from asr.manifest import Manifest
from scripts.recipes import gpu
from tests.training.words import write_corpus

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "recipes" / "gpu.py"


def packed(folder, monkeypatch):
    """The pieces of two corpora called train.jsonl, and these."""
    paths = []
    for name in ("one", "two"):
        manifest = write_corpus(folder / name, 3, seed=len(name) + len(paths))
        paths.append(manifest.rename(manifest.with_name("train.jsonl")))
    monkeypatch.setattr(gpu, "THERE", 50_000)
    monkeypatch.setattr(sys, "argv", ["gpu.py", "pack", str(folder / "pieces"), *map(str, paths)])
    gpu.main()
    return folder / "pieces", paths


def test_what_is_unpacked_is_what_was_packed(tmp_path, monkeypatch):
    folder, paths = packed(tmp_path, monkeypatch)
    sizes = [path.stat().st_size for path in folder.glob("*.tar.*")]
    assert len(sizes) > 3
    assert max(sizes) <= 50_000
    assert gpu.join(folder, tmp_path / "data")[-1] == gpu.SETS
    sets = json.loads((tmp_path / "data" / gpu.SETS).read_text())
    assert sets == {"train": ["one-train.jsonl", "two-train.jsonl"], "dev": []}
    for source, target in zip(paths, sets["train"], strict=True):
        before, after = Manifest(source), Manifest(tmp_path / "data" / target)
        assert [u.text for u in after] == [u.text for u in before]
        assert [after.read_bytes(u) for u in after] == [before.read_bytes(u) for u in before]


def test_a_missing_or_damaged_piece_is_named(tmp_path, monkeypatch):
    folder, _ = packed(tmp_path, monkeypatch)
    damaged = folder / "one-train.tar.001"
    damaged.write_bytes(damaged.read_bytes()[::-1])
    with pytest.raises(SystemExit, match=r"the pieces of one-train\.tar are damaged"):
        gpu.join(folder, tmp_path / "data")
    damaged.unlink()
    with pytest.raises(SystemExit, match=r"one-train\.tar\.001: .*bring all pieces"):
        gpu.join(folder, tmp_path / "data")
    assert not list((tmp_path / "data").glob("*.tar"))


def test_files_are_split_and_joined(tmp_path):
    contents = {"a.bin": bytes(range(256)) * 5, "in/empty": b"", "even": b"x" * 200}
    for name, content in contents.items():
        (tmp_path / "file").write_bytes(content)
        assert gpu.split(tmp_path / "file", tmp_path / "out", name, 100) == max(1, -(-len(content) // 100))
    assert sorted(gpu.join(tmp_path / "out", tmp_path / "whole")) == sorted(contents)
    for name, content in contents.items():
        assert (tmp_path / "whole" / name).read_bytes() == content


@pytest.mark.slow
def test_it_trains_and_the_model_comes_back(tmp_path, monkeypatch):
    folder, _ = packed(tmp_path, monkeypatch)
    out = tmp_path / "out"
    sizes = ("model.d_model=16", "model.heads=2", "model.inner=16", "model.rotary_dim=8", "tokenizer.pieces=20")
    settings = [part for s in (*sizes, "schedule.steps=1", "schedule.warmup=1") for part in ("--set", s)]
    config = ROOT / "configs" / "tiny.yaml"
    subprocess.run([sys.executable, SCRIPT, "train", folder, out, "--config", config, *settings], check=True, cwd=ROOT)
    subprocess.run([sys.executable, SCRIPT, "join", out, tmp_path / "model"], check=True, cwd=ROOT)
    for path in (out / "run" / "model").iterdir():
        assert (tmp_path / "model" / path.name).read_bytes() == path.read_bytes()
