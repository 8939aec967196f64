"""The configuration of a training run: frozen dataclasses, read from YAML with overrides and checked key by key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, Literal

from asr.encoder import EncoderConfig


def _number(default: Any, low: float, high: float = float("inf"), *, above: bool = False) -> Any:
    """A field whose value (or each of its values) lies in [low, high], or in (low, high] where `above`."""
    return field(default=default, metadata={"low": low, "high": high, "above": above})


def _path(default: Any) -> Any:
    """A field that names files: `~` and `$VARIABLE` are expanded."""
    return field(default=default, metadata={"path": True})


@dataclass(frozen=True)
class DataConfig:
    """What is trained on.

    Attributes:
        train: manifests, JSON lines of audio_filepath, duration (seconds) and text.
        dev: manifests for the dev word error rate; none = it is not measured.
        batch_seconds: padded audio in a batch (seconds).
        max_duration: longer utterances are left out (seconds).
        buckets: groups of similar duration inside which utterances are shuffled; more = less padding, less shuffling.
        tail_seconds: zeros after each utterance, as at the end of a stream, so that the last word can come out.
        text: how texts are written as targets: `normalised` to a-z, apostrophes and spelled digits, as error rates
            compare them (English); `lower` case; or `as_written`.
        workers: processes that decode audio; 0 = the training process does.
    """

    train: tuple[str, ...] = _path(())
    dev: tuple[str, ...] = _path(())
    batch_seconds: float = _number(60.0, 0, above=True)
    max_duration: float = _number(20.0, 0, above=True)
    buckets: int = _number(8, 1)
    tail_seconds: float = _number(0.25, 0, 10)
    text: Literal["normalised", "lower", "as_written"] = "normalised"
    workers: int = _number(2, 0, 256)


@dataclass(frozen=True)
class TokenizerConfig:
    """The CTC vocabulary: an existing SentencePiece model, or one trained on the training texts.

    Attributes:
        model: path of a SentencePiece model.
        pieces: most pieces of a new one; fewer where the texts do not support that many.
    """

    model: str | None = _path(None)
    pieces: int = _number(256, 2, 32000)


@dataclass(frozen=True)
class AugmentConfig:
    """SpecAugment (Park et al. 2019) and level; 0 masks and 0 dB switch them off.

    Attributes:
        gain_db: the level of an utterance is changed by up to this much, both ways (decibels).
        frequency_masks: bands that are masked in each utterance.
        frequency_width: widest band (mels).
        time_masks: stretches that are masked in each utterance.
        time_width: longest stretch (frames).
        time_share: longest stretch as a share of the utterance.
    """

    gain_db: float = _number(6.0, 0, 60)
    frequency_masks: int = _number(2, 0, 20)
    frequency_width: int = _number(27, 0)
    time_masks: int = _number(5, 0, 100)
    time_width: int = _number(60, 0)
    time_share: float = _number(0.05, 0, 1)


@dataclass(frozen=True)
class LossConfig:
    """Weights of the losses that are added up.

    Attributes:
        ctc: connectionist temporal classification.
    """

    ctc: float = _number(1.0, 0, above=True)


@dataclass(frozen=True)
class OptimiserConfig:
    """AdamW (Loshchilov and Hutter 2019).

    Attributes:
        learning_rate: its peak.
        beta1: decay of the mean of gradients.
        beta2: decay of the mean of squared gradients.
        weight_decay: of matrices and convolutions; norms, biases and the relative bias have none.
        clip: largest norm of the gradient.
        accumulate: batches that make one step.
    """

    learning_rate: float = _number(1e-3, 0, above=True)
    beta1: float = _number(0.9, 0, 0.9999)
    beta2: float = _number(0.98, 0, 0.99999)
    weight_decay: float = _number(0.01, 0)
    clip: float = _number(1.0, 0, above=True)
    accumulate: int = _number(1, 1)


@dataclass(frozen=True)
class ChunkConfig:
    """Chunks (positions of 24 ms) that are drawn for each batch, so that one model serves every latency.

    Attributes:
        sizes: chunks to draw from.
        look_ahead: look-aheads to draw from.
        full_context: probability of the whole utterance as one chunk, as finals are read.
        max_cost: look-aheads with (chunk + look-ahead) / chunk above this are not drawn with that chunk: it is how
            many times longer the masked pass gets (and its attention that squared).
        dev_size: chunk of the streaming dev word error rate.
        dev_look_ahead: look-ahead of it.
    """

    sizes: tuple[int, ...] = _number((1, 3, 7, 13, 20, 27), 1)
    look_ahead: tuple[int, ...] = _number((0, 7, 13), 0)
    full_context: float = _number(0.4, 0, 1)
    max_cost: float = _number(2.0, 1)
    dev_size: int = _number(13, 1)
    dev_look_ahead: int = _number(13, 0)


@dataclass(frozen=True)
class ScheduleConfig:
    """How long, and what happens on the way.

    Attributes:
        steps: updates of the weights in all.
        warmup: steps in which the learning rate rises linearly.
        decay: how it falls afterwards.
        floor: smallest learning rate as a share of the peak.
        dev_every: steps between dev word error rates; the last step has one, too.
        checkpoint_every: steps between checkpoints.
        checkpoint_minutes: a checkpoint also after this much time.
        keep: newest checkpoints that stay, besides the best.
        time_limit: minutes of one run, after which it saves and stops; none = no limit.
    """

    steps: int = _number(10000, 1)
    warmup: int = _number(500, 0)
    decay: Literal["cosine", "inverse_sqrt", "constant"] = "cosine"
    floor: float = _number(0.02, 0, 1)
    dev_every: int = _number(1000, 1)
    checkpoint_every: int = _number(1000, 1)
    checkpoint_minutes: float = _number(15.0, 0, above=True)
    keep: int = _number(2, 1)
    time_limit: float | None = _number(None, 0, above=True)


@dataclass(frozen=True)
class TrainConfig:
    """Everything that a training run depends on.

    Attributes:
        seed: of weights, batches, augmentation and chunks.
        precision: of the encoder's products; bf16 is for GPUs that have it.
    """

    seed: int = _number(1, 0, 2**31)
    precision: Literal["float32", "bf16"] = "float32"
    data: DataConfig = DataConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: EncoderConfig = field(default_factory=EncoderConfig)
    augment: AugmentConfig = AugmentConfig()
    losses: LossConfig = LossConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    chunks: ChunkConfig = ChunkConfig()
    schedule: ScheduleConfig = ScheduleConfig()


def flatten(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All `(dotted key, value)` of a configuration."""
    for item in fields(config):
        value = getattr(config, item.name)
        if is_dataclass(value):
            yield from flatten(value, f"{prefix}{item.name}.")
        else:
            yield prefix + item.name, value


def to_plain(config: TrainConfig) -> dict[str, Any]:
    """Nested dictionaries and lists, as YAML and JSON write them."""
    return {
        section: {key: list(v) if isinstance(v, tuple) else v for key, v in value.items()}
        if isinstance(value, dict)
        else value
        for section, value in asdict(config).items()
    }
