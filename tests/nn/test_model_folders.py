"""Whatever is wrong with a folder of a model is told at once, in a line that names the file; nothing else is raised."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save_file

from asr.errors import ModelError
from asr.nn.commands import CommandClassifier
from asr.nn.gate import SpeechGate
from asr.nn.speech_model import CONFIG, CTC_PIECES, DECODER, DECODER_PIECES, ENCODER, SpeechModel
from asr.nn.vit import VisionTransformer, ViTConfig
from asr.nn.vit_weights import CONFIG as VIT_CONFIG
from asr.nn.vit_weights import WEIGHTS as VIT_WEIGHTS
from asr.nn.vit_weights import load_vit, save_vit
from asr.nn.weights import save_weights
from asr.training.teacher import CONFIG as TEACHER_CONFIG
from asr.training.teacher import WEIGHTS as TEACHER_WEIGHTS
from asr.training.teacher import Teacher, TeacherConfig
from tests.cli.runner import asr
from tests.mutations import changed, fields
from tests.recordings import SAMPLE
from tests.small import GATE, randomise, small_reader

WORDS = ViTConfig((60, 48), (60, 8), 1, d_model=16, heads=2, inner=24, layers=2, classes=3)
SMALL_GATE = SpeechGate(randomise(VisionTransformer(GATE), 0))
SECONDS = 1.0  # that the loading of a small model may take, whatever is wrong with it


@dataclass(frozen=True)
class Folder:
    """A kind of model folder: how a small one is written and read, and which of its files hold what."""

    save: Callable[[Path], None]
    load: Callable[[Path], Any]
    config: str
    weights: tuple[str, ...]
    tables: tuple[str, ...] = ()


def save_teacher(folder: Path) -> None:
    teacher = Teacher(TeacherConfig(d_model=32, heads=4, inner=48, layers=2, rotary_dim=4))
    save_weights(teacher.state_dict(), folder / TEACHER_WEIGHTS)
    (folder / TEACHER_CONFIG).write_text(json.dumps(asdict(teacher.config)))


def save_words(folder: Path) -> None:
    save_vit(randomise(VisionTransformer(WORDS), 0), folder, {"labels": ["yes", "no", "other"]}, pack="float16")


FOLDERS = {
    "speech model": Folder(
        lambda folder: small_reader().save(folder, int8_decoder=True),
        SpeechModel.load,
        CONFIG,
        (ENCODER, DECODER),
        (CTC_PIECES, DECODER_PIECES),
    ),
    "gate": Folder(SMALL_GATE.save, SpeechGate.load, VIT_CONFIG, (VIT_WEIGHTS,)),
    "commands": Folder(save_words, partial(CommandClassifier.load, gate=SMALL_GATE), VIT_CONFIG, (VIT_WEIGHTS,)),
    "vit": Folder(save_words, load_vit, VIT_CONFIG, (VIT_WEIGHTS,)),
    "teacher": Folder(save_teacher, Teacher.load, TEACHER_CONFIG, (TEACHER_WEIGHTS,)),
}
UNREAD = {("gate", "about"), ("commands", "about"), ("vit", "labels")}  # fields of a file that are not for its reader
DOUBLED = {"mels", "d_model", "inner", "layers", "ctc_layers", "vocabulary", "buckets", "channels", "classes"}
kinds = pytest.mark.parametrize("kind", FOLDERS)


@pytest.fixture
def folder(kind: str, tmp_path: Path) -> Path:
    FOLDERS[kind].save(tmp_path)
    FOLDERS[kind].load(tmp_path)
    return tmp_path


def check_refused(kind: str, folder: Path, file: str, what: str) -> None:
    """Loading fails within a second, with one line that names a file."""
    begun = time.perf_counter()
    try:
        FOLDERS[kind].load(folder)
    except ModelError as error:
        line = str(error)
    else:
        pytest.fail(f"{what}: loaded")
    assert file in line, f"{what}: {line}"
    assert "\n" not in line, f"{what}: {line}"
    assert len(line) < 500, what
    assert time.perf_counter() - begun < SECONDS, what


def impossible(name: str, value: Any) -> list[Any]:
    """Values that a field cannot have, given one that it has."""
    if name == "labels":
        return [None, {}, "yes", [], value[1:], [1, 2, 3], value[:1] * 3]
    if name in ("image", "patch"):
        return [None, 1, [], value[:1], [*value, 1], ["a", "b"], [0, 0], [1.5, 2], [[1], 2], [7, 7], [10**9] * 2]
    if isinstance(value, str):
        return [1, None, [], True]
    if isinstance(value, dict):
        return ["x", 1, [], True, {"storeys": 3}]
    if isinstance(value, float):
        return ["1", None, [], {}, True, -1, float("nan"), float("inf")]
    return ["8", [], {}, True, -1, 1.5, 10**9, float("nan"), *([] if value is None else [None])]


@kinds
def test_no_field_can_have_a_value_that_is_impossible(kind, folder):
    path = folder / FOLDERS[kind].config
    content, tried = path.read_text(), 0
    for keys, value in fields(json.loads(content)):
        if (kind, keys[0]) in UNREAD:
            continue
        for wrong in impossible(keys[-1], value):
            path.write_text(changed(content, keys, wrong))
            check_refused(kind, folder, path.name, f"{'.'.join(keys)} = {wrong!r}")
            tried += 1
    assert tried > 40


@kinds
def test_sizes_are_those_of_the_weights_and_of_the_pieces(kind, folder):
    path = folder / FOLDERS[kind].config
    content, tried = path.read_text(), 0
    for keys, value in fields(json.loads(content)):
        if keys[-1] in DOUBLED:
            path.write_text(changed(content, keys, 2 * value))
            check_refused(kind, folder, ".", f"{'.'.join(keys)} = {2 * value}")
            tried += 1
    assert tried >= 3


def test_a_table_has_no_more_pieces_than_the_decoder_has_rows(tmp_path):
    FOLDERS["speech model"].save(tmp_path)
    pieces = json.loads((tmp_path / DECODER_PIECES).read_text())
    for wrong in ([*pieces, "more"], pieces[:2]):
        (tmp_path / DECODER_PIECES).write_text(json.dumps(wrong))
        check_refused("speech model", tmp_path, DECODER_PIECES, f"{len(wrong)} pieces")


@kinds
def test_no_file_can_be_missing_cut_or_something_else(kind, folder):
    k = FOLDERS[kind]
    for name in (k.config, *k.weights, *k.tables):
        path = folder / name
        content = path.read_bytes()
        path.unlink()
        check_refused(kind, folder, name, f"{name}: missing")
        path.mkdir()
        check_refused(kind, folder, name, f"{name}: a folder")
        path.rmdir()
        half = len(content) // 2
        for number, wrong in enumerate(
            [b"", content[:1], content[:half], content[:-9], content[half:], bytes(len(content)), b"\xff" * 99]
        ):
            path.write_bytes(wrong)
            check_refused(kind, folder, name, f"{name}: damage {number}")
        if name.endswith(".json"):
            for text in ("null", "3", "[1, 2]", '"x"', "{}" if name in k.tables else "[]", "[" * 100_000, '{"a": '):
                path.write_text(text)
                check_refused(kind, folder, name, f"{name}: {text[:20]}")
        path.write_bytes(content)


@kinds
def test_no_tensor_can_be_missing_of_another_shape_or_no_numbers(kind, folder):
    for name in FOLDERS[kind].weights:
        path = folder / name
        weights = load(path.read_bytes())
        for key in sorted(weights)[::3]:
            value = weights[key]
            not_finite = value.float().flatten().clone()
            not_finite[-1] = float("nan")
            others = {
                "missing": None,
                "a row short": value[:-1].contiguous(),
                "flat": value[None].contiguous(),
                "whole numbers": value.long(),
                "NaN": not_finite.view(value.shape),
                "infinite": value.float() * float("inf"),
            }
            for what, other in others.items():
                rest = {k: v for k, v in weights.items() if k != key}
                save_file(rest if other is None else rest | {key: other}, path)
                check_refused(kind, folder, name, f"{key}: {what}")
        save_file(weights | {"more": torch.zeros(3)}, path)
        check_refused(kind, folder, name, "one tensor too many")
        save_file(weights, path)


def test_the_command_line_says_it_in_one_line(tmp_path):
    FOLDERS["speech model"].save(tmp_path)
    (tmp_path / CONFIG).write_text(changed((tmp_path / CONFIG).read_text(), ("encoder", "layers"), 10**6))
    done = asr("transcribe", "--model", tmp_path, SAMPLE)
    assert done.returncode == 2
    assert "encoder.layers: must be at least 1 and at most 1024, not 1000000" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
