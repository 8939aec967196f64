import json
from dataclasses import asdict

import pytest

from asr.errors import ConfigError
from asr.training.config import TrainConfig
from asr.training.load_config import load_config
from tests.mutations import fields
from tests.training.run_asr import CONFIGS


def write(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text(text, "utf-8")
    return path


SHIPPED = sorted(path.name for path in CONFIGS.glob("*.yaml"))


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_configurations_are_valid(name):
    config = load_config(CONFIGS / name)
    assert config.model.d_model % config.model.heads == 0
    last = config.model.layers + config.model.ctc_layers
    assert max(config.losses.taps) <= last or not config.losses.distillation
    assert max(config.losses.intermediate_blocks) < last or not config.losses.intermediate


def test_an_override_wins_and_numbers_may_be_written_as_1e_3(tmp_path):
    path = write(tmp_path, "optimiser: {learning_rate: 2e-3}\n")
    assert load_config(path).optimiser.learning_rate == 2e-3
    config = load_config(path, ["optimiser.learning_rate=1e-4", "data.train=[a.jsonl, b.jsonl]", "data.dev=c.jsonl"])
    assert config.optimiser.learning_rate == 1e-4
    assert config.data.train == ("a.jsonl", "b.jsonl")
    assert config.data.dev == ("c.jsonl",)


def test_variables_in_paths_are_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("CORPUS", "/data/speech")
    path = write(tmp_path, "data: {train: ['${CORPUS}/train.jsonl']}\n")
    assert load_config(path).data.train == ("/data/speech/train.jsonl",)
    monkeypatch.delenv("CORPUS")
    with pytest.raises(ConfigError, match=r"data\.train: the variable \$\{CORPUS\} is not set"):
        load_config(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("optimiser: {learning_rat: 1}", "optimiser.learning_rat: no such key; did you mean optimiser.learning_rate?"),
        ("learning_rate: 1", "learning_rate: no such key; did you mean optimiser.learning_rate?"),
        ("modle: {}", "modle: no such key; did you mean model?"),
        ("optimiser: 3", "optimiser: must be a section of keys, not 3"),
        ("optimiser: {learning_rate: fast}", "optimiser.learning_rate: must be a number, not 'fast'"),
        ("optimiser: {learning_rate: 0}", "optimiser.learning_rate: must be above 0, not 0.0"),
        ("optimiser: {learning_rate: .nan}", "optimiser.learning_rate: must be above 0, not nan"),
        ("optimiser: {learning_rate: .inf}", "optimiser.learning_rate: must be finite"),
        ("schedule: {steps: 1.5}", "schedule.steps: must be a whole number, not 1.5"),
        ("schedule: {steps: true}", "schedule.steps: must be a whole number, not True"),
        ("schedule: {steps: 10, warmup: 20}", "schedule.warmup: 20 must be at most schedule.steps, 10"),
        ("schedule: {decay: linear}", "schedule.decay: must be one of cosine, inverse_sqrt, constant, not 'linear'"),
        ("chunks: {sizes: [7, 0]}", "chunks.sizes: must be at least 1, not 0"),
        ("chunks: {full_context: 1.2}", "chunks.full_context: must be at least 0 and at most 1, not 1.2"),
        ("chunks: {sizes: []}", "chunks.sizes: name at least one chunk, or set chunks.full_context to 1"),
        ("model: {d_model: 100, heads: 8}", "model.d_model: 100 must be a multiple of heads, 8"),
        ("model: {rotary_dim: 60}", "model.rotary_dim: must be even and at most d_model / heads = 52, not 60"),
        ("model: {vocabulary: 30}", "model.vocabulary: comes from the tokenizer: set tokenizer.pieces instead"),
        ("data: {batch_seconds: 5}", "data.batch_seconds: 5 must hold an utterance of data.max_duration"),
        ("data: {train: [a, b], weights: [1]}", "data.weights: name one for each manifest of data.train, 2 and not 1"),
        ("data: {train: [a], weights: [0]}", "data.weights: must be above 0 and at most 1000, not 0.0"),
        ("augment: {snr_db: [20, 10]}", "augment.snr_db: name the lowest and the highest ratio"),
        ("augment: {room_probability: 2}", "augment.room_probability: must be at least 0 and at most 1, not 2.0"),
        ("losses: {taps: [4, 2]}", "losses.taps: must ascend"),
        ("losses: {intermediate: 1, intermediate_blocks: []}", "losses.intermediate_blocks: name at least one block"),
        ("losses: {decoder: 1}", "losses.decoder: needs an attention decoder: set decoder.layers, or start"),
        ("decoder: {layers: 2}", "decoder.layers: a new decoder learns by losses.decoder alone"),
        ("precision: float16", "precision: must be one of auto, float32, bf16, not 'float16'"),
        ("optimiser: {ema: 1}", "optimiser.ema: must be at least 0 and at most 0.99999, not 1.0"),
        ("- a list", "not a configuration"),
        ("data: [", "not YAML: line"),
        ("seed: !!bool x", "not YAML"),
        ("seed: !!int ''", "not YAML"),
        ("seed: !!timestamp x", "not YAML"),
        ("seed: 1\nprecision: auto\nseed: 2", "not YAML: line 3: seed: stands there twice"),
        ("data:\n  train: a\n  train: b", "not YAML: line 3: train: stands there twice"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(tmp_path, text, message):
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, text + "\n"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "override", ["seed", "=3", "optimiser.beta1=[", "nothing.at.all=1", "data={train: a, train: b}"]
)
def test_impossible_overrides_are_refused(tmp_path, override):
    with pytest.raises(ConfigError):
        load_config(write(tmp_path, ""), [override])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_tells_the_encoding(tmp_path, encoding):
    path = tmp_path / "config.yaml"
    path.write_bytes("data: {train: é.jsonl}\n".encode(encoding))
    assert load_config(path).data.train == ("é.jsonl",)


def test_what_never_ends_is_refused():
    with pytest.raises(ConfigError, match="not a configuration: it is longer than 1 MB"):
        load_config("/dev/zero")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.yaml: the configuration cannot be read"):
        load_config(tmp_path / "none.yaml")


WRONG = [None, "x", -1, 1.5, [], [[1]], {"storeys": 3}, 10**400]


def complaint(path, *overrides):
    """What is said about a configuration; None: nothing."""
    try:
        load_config(path, overrides)
    except ConfigError as error:
        return str(error)
    return None


def test_no_value_of_any_key_raises_anything_else(tmp_path):
    path, known = write(tmp_path, ""), asdict(TrainConfig())
    for keys, value in fields(known):
        lines = [complaint(path, f"{'.'.join(keys)}={json.dumps(wrong)}") for wrong in WRONG]
        assert not any("\n" in line for line in lines if line is not None), keys
        never = WRONG[1:] if isinstance(value, dict) else [[[1]], {"storeys": 3}]
        assert all(lines[WRONG.index(wrong)] for wrong in never), keys


NO_YAML = {
    "an endless number": "seed: " + "9" * 5000,
    "no date": "data: 2020-99-99",
    "nested lists": "[" * 1000,
    "nested sections": "{a: " * 1000,
    "in itself": "a: &a [*a]",
    "a number as a key": "1: 2",
    "a list as a key": "[1]: 2",
    "a NUL": "\0",
    "merged with nothing": "<<: 3",
}


@pytest.mark.parametrize("text", NO_YAML.values(), ids=NO_YAML)
def test_yaml_of_any_kind_is_refused_in_one_line(tmp_path, text):
    assert "\n" not in complaint(write(tmp_path, text))
