"""The configuration of a training run: frozen dataclasses, read from YAML with overrides and checked key by key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, Literal

from asr.errors import ConfigError
from asr.nn.encoder import EncoderConfig
from asr.nn.sizes import bounded


def _path(default: Any) -> Any:
    """A field that names files: `~` and `$VARIABLE` are expanded."""
    return field(default=default, metadata={"path": True})


@dataclass(frozen=True)
class DataConfig:
    """What is trained on.

    Attributes:
        train: manifests, JSON lines of audio_filepath, duration (seconds) and text.
        weights: how often each manifest of `train` comes in an epoch; none = all once. 0.5 = every second utterance,
            the others in the next epoch.
        dev: manifests for the dev word error rate; none = it is not measured, unless some of `train` is held out.
        held_out: share of `train` that is not trained on but is the dev set, where `dev` names none.
        batch_seconds: padded audio in a batch (seconds).
        max_duration: longer utterances are left out (seconds).
        buckets: groups of similar duration inside which utterances are shuffled; more = less padding, less shuffling.
        tail_seconds: zeros after each utterance, as at the end of a stream, so that the last word can come out.
        text: how texts are written as targets: `normalised` to a-z, apostrophes and spelled digits, as error rates
            compare them (English); `lower` case; or `as_written`.
        workers: processes that decode audio; 0 = the training process does.
    """

    train: tuple[str, ...] = _path(())
    weights: tuple[float, ...] = bounded((), 0, 1000, above=True)
    dev: tuple[str, ...] = _path(())
    held_out: float = bounded(0.0, 0, 0.5)
    batch_seconds: float = bounded(60.0, 0, above=True)
    max_duration: float = bounded(20.0, 0, above=True)
    buckets: int = bounded(8, 1)
    tail_seconds: float = bounded(0.25, 0, 10)
    text: Literal["normalised", "lower", "as_written"] = "normalised"
    workers: int = bounded(2, 0, 256)

    def __post_init__(self) -> None:
        if self.train and self.weights and len(self.weights) != len(self.train):
            raise ConfigError(
                f"data.weights: name one for each manifest of data.train, {len(self.train)} and not {len(self.weights)}"
            )


@dataclass(frozen=True)
class TokenizerConfig:
    """The CTC vocabulary: an existing SentencePiece model, or one trained on the training texts.

    Attributes:
        model: path of a SentencePiece model.
        pieces: most pieces of a new one; fewer where the texts do not support that many.
    """

    model: str | None = _path(None)
    pieces: int = bounded(256, 2, 32000)


@dataclass(frozen=True)
class AugmentConfig:
    """What batches go through before the model sees them; probabilities of 0, 0 masks and 0 dB switch each off.

    Attributes:
        speed: factors of which one is drawn for each batch.
        noise: manifests of noises; none = white, pink and brown noise.
        noise_seconds: of noises that are kept in memory.
        noise_probability: of noise in an utterance.
        snr_db: lowest and highest ratio of speech to noise or to babble (decibels).
        babble_probability: of other utterances of the batch in the background.
        room_probability: of the echoes of a room.
        telephone_probability: of a telephone's band, 300 to 3400 Hz.
        codec_probability: of 8-bit mu-law or a coarse quantisation.
        gain_db: the level of an utterance is changed by up to this much, both ways (decibels).
        frequency_masks: bands that are masked in each utterance.
        frequency_width: widest band (mels).
        time_masks: stretches that are masked in each utterance.
        time_width: longest stretch (frames).
        time_share: longest stretch as a share of the utterance.
    """

    speed: tuple[float, ...] = bounded((1.0,), 0.5, 2.0)
    noise: tuple[str, ...] = _path(())
    noise_seconds: float = bounded(600.0, 0, above=True)
    noise_probability: float = bounded(0.0, 0, 1)
    snr_db: tuple[float, ...] = bounded((5.0, 30.0), -20, 100)
    babble_probability: float = bounded(0.0, 0, 1)
    room_probability: float = bounded(0.0, 0, 1)
    telephone_probability: float = bounded(0.0, 0, 1)
    codec_probability: float = bounded(0.0, 0, 1)
    gain_db: float = bounded(6.0, 0, 60)
    frequency_masks: int = bounded(2, 0, 20)
    frequency_width: int = bounded(27, 0)
    time_masks: int = bounded(5, 0, 100)
    time_width: int = bounded(60, 0)
    time_share: float = bounded(0.05, 0, 1)

    def __post_init__(self) -> None:
        if len(self.snr_db) != 2 or self.snr_db[0] > self.snr_db[1]:
            raise ConfigError("augment.snr_db: name the lowest and the highest ratio, such as [5, 30]")


@dataclass(frozen=True)
class TeacherSource:
    """The frozen teacher of distillation and of the decoder's texts.

    Attributes:
        folder: what `scripts/recipes/import_moonshine.py` wrote; none = no teacher.
        agreement: word error rate (a share) up to which the teacher's own transcript is what the decoder is to write;
            above it, the reference is. None = the reference is always, and nothing is transcribed.
    """

    folder: str | None = _path(None)
    agreement: float | None = bounded(0.1, 0)


@dataclass(frozen=True)
class LossConfig:
    """Weights of the losses that are added up, 0 = without, and their settings.

    Attributes:
        ctc: connectionist temporal classification.
        intermediate: CTC after blocks on the way, through the same output layer (Lee and Watanabe 2021).
        consistency: how far CTC's answers to two augmented views of each batch lie apart (Yao et al. 2024; 0.2 there);
            each batch is then answered twice.
        decoder: cross-entropy of what the attention decoder writes.
        distillation: layer by layer, from the teacher.
        ctc_gradient: share of CTC's gradient that goes on into the blocks up to the memory; 0 = only its branch learns.
        label_smoothing: of the decoder's cross-entropy.
        own_share: share of the decoder's target that is what it says itself over the teacher's memory.
        intermediate_blocks: after which blocks.
        taps: blocks after which the encoder is compared with the teacher; 0 = the stem.
        teacher_taps: the teacher's blocks that these are compared with, one for each; none = those of the same numbers.
        edge: positions (of 24 ms); who sees fewer of the future counts less in the distillation,
        edge_weight: namely so much.
    """

    ctc: float = bounded(1.0, 0)
    intermediate: float = bounded(0.0, 0)
    consistency: float = bounded(0.0, 0)
    decoder: float = bounded(0.0, 0)
    distillation: float = bounded(0.0, 0)
    ctc_gradient: float = bounded(1.0, 0, 1)
    label_smoothing: float = bounded(0.0, 0, 0.9)
    own_share: float = bounded(0.0, 0, 1)
    intermediate_blocks: tuple[int, ...] = bounded((4,), 1)
    taps: tuple[int, ...] = bounded((0, 2, 4, 6, 8), 0)
    teacher_taps: tuple[int, ...] = bounded((), 0)
    edge: int = bounded(10, 0)
    edge_weight: float = bounded(0.15, 0, 1)


@dataclass(frozen=True)
class OptimiserConfig:
    """AdamW (Loshchilov and Hutter 2019), or Muon for the matrices of blocks.

    Attributes:
        learning_rate: its peak.
        muon: learning rate of Muon's matrices as a multiple (`asr.training.muon`); 0 = AdamW for all.
        beta1: decay of the mean of gradients.
        beta2: decay of the mean of squared gradients.
        weight_decay: of matrices and convolutions; norms, biases and the relative bias have none.
        clip: largest norm of the gradient.
        accumulate: batches that make one step.
        stem_rate: the stem's learning rate as a multiple.
        relative_rate: that of the learned relative biases.
        ctc_rate: that of the blocks of the CTC branch.
        output_rate: that of the CTC output layer.
        decoder_rate: that of the attention decoder; 0 = the decoder of the model that a run starts from stays as it is
            (a new one learns at 1).
        cross_rate: that of its cross-attention; 0 = as the rest of it.
        frozen_blocks: so many of the first blocks, and the stem, stay as they are (for a run that has a `start`).
        layer_decay: each block below the last of the memory learns at this times the rate of the one above it.
        ema: decay of the moving average of the weights, which is what is measured and exported; 0 = without, 0.999
            averages over the last thousand steps.
        start_share: share that the weights from which the run started have in what is measured and exported: what it
            knew before is forgotten less (Wortsman et al. 2022).
    """

    learning_rate: float = bounded(1e-3, 0, above=True)
    muon: float = bounded(0.0, 0)
    beta1: float = bounded(0.9, 0, 0.9999)
    beta2: float = bounded(0.98, 0, 0.99999)
    weight_decay: float = bounded(0.01, 0)
    clip: float = bounded(1.0, 0, above=True)
    accumulate: int = bounded(1, 1)
    stem_rate: float = bounded(1.0, 0)
    relative_rate: float = bounded(1.0, 0)
    ctc_rate: float = bounded(1.0, 0)
    output_rate: float = bounded(1.0, 0)
    decoder_rate: float = bounded(0.0, 0)
    cross_rate: float = bounded(0.0, 0)
    frozen_blocks: int = bounded(0, 0)
    layer_decay: float = bounded(1.0, 0, 1, above=True)
    ema: float = bounded(0.0, 0, 0.99999)
    start_share: float = bounded(0.0, 0, 0.99)


@dataclass(frozen=True)
class ChunkConfig:
    """Chunks (positions of 24 ms) that are drawn for each batch, so that one model serves every latency.

    Attributes:
        sizes: chunks to draw from.
        look_ahead: look-aheads to draw from.
        full_context: probability of the whole utterance as one chunk, as finals are read.
        max_cost: look-aheads with (chunk + look-ahead) / chunk above this are not drawn with that chunk: it is how
            many times longer the masked pass gets (and its attention that squared).
        left_context: positions before a chunk that it sees, to draw from; none = always the model's.
        dev_size: chunk of the streaming dev word error rate.
        dev_look_ahead: look-ahead of it.
        favoured: a chunk and its look-ahead that are drawn more often than the others,
        favour: namely in this share of the draws that are not full context.
    """

    sizes: tuple[int, ...] = bounded((1, 3, 7, 13, 20, 27), 1)
    look_ahead: tuple[int, ...] = bounded((0, 7, 13), 0)
    full_context: float = bounded(0.4, 0, 1)
    max_cost: float = bounded(2.0, 1)
    left_context: tuple[int, ...] = bounded((), 0)
    dev_size: int = bounded(13, 1)
    dev_look_ahead: int = bounded(13, 0)
    favoured: tuple[int, ...] = bounded((), 0)
    favour: float = bounded(0.0, 0, 1)


@dataclass(frozen=True)
class ScheduleConfig:
    """How long, and what happens on the way.

    Attributes:
        steps: updates of the weights in all.
        warmup: steps in which the learning rate rises linearly.
        decay: how it falls afterwards.
        floor: smallest learning rate as a share of the peak.
        dev_every: steps between dev word error rates; the last step has one, too,
        dev_first: and the model before the first step, which is kept where none is better.
        checkpoint_every: steps between checkpoints.
        checkpoint_minutes: a checkpoint also after this much time.
        keep: newest checkpoints that stay, besides the best.
        time_limit: minutes of one run, after which it saves and stops; none = no limit.
    """

    steps: int = bounded(10000, 1)
    warmup: int = bounded(500, 0)
    decay: Literal["cosine", "inverse_sqrt", "constant"] = "cosine"
    floor: float = bounded(0.02, 0, 1)
    dev_every: int = bounded(1000, 1)
    dev_first: bool = False
    checkpoint_every: int = bounded(1000, 1)
    checkpoint_minutes: float = bounded(15.0, 0, above=True)
    keep: int = bounded(2, 1)
    time_limit: float | None = bounded(None, 0, above=True)


@dataclass(frozen=True)
class NewDecoder:
    """An attention decoder that is trained from scratch, jointly with the encoder, on whose memory it is as wide.

    It writes CTC's pieces, spelling other characters in bytes.

    Attributes:
        layers: blocks; 0 = none.
        heads: attention heads.
        inner: inner width of the gated feed-forward networks.
        dropout: in training.
    """

    layers: int = bounded(0, 0)
    heads: int = bounded(8, 1)
    inner: int = bounded(1024, 1)
    dropout: float = bounded(0.1, 0, 0.9)


@dataclass(frozen=True)
class TrainConfig:
    """Everything that a training run depends on.

    Attributes:
        seed: of weights, batches, augmentation and chunks.
        precision: of matrix products; `auto` measures whether bf16 is faster on the device.
        start: the model to go on from, the name of a built-in one or a folder; its sizes, tokenizer and attention
            decoder are kept. None = a new model with random weights.
    """

    seed: int = bounded(1, 0, 2**31)
    precision: Literal["auto", "float32", "bf16"] = "auto"
    start: str | None = _path(None)
    data: DataConfig = DataConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: NewDecoder = NewDecoder()
    augment: AugmentConfig = AugmentConfig()
    teacher: TeacherSource = TeacherSource()
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
