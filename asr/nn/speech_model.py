"""SpeechModel: features, encoder, attention decoder and tokenizers as one thing that is saved and loaded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from asr.errors import ModelError
from asr.files import write_whole
from asr.nn.decoder import AttentionDecoder, DecoderConfig
from asr.nn.device import usable_device
from asr.nn.encoder import SUBSAMPLING, EncoderConfig, EncoderOutput, EncoderState, StreamingEncoder, next_window
from asr.nn.features import SILENCE, FeatureConfig, LogMel, LogMelState, level_gain, scale_frames
from asr.nn.level import LevelState, follow_level, loud_from
from asr.nn.masks import padding_mask
from asr.nn.sizes import read_json, read_sizes
from asr.nn.weights import MODELS, assign_weights, halve_all, load_weights, quantise_all, save_weights
from asr.tokenizer import CtcTokenizer, PieceTable

CONFIG, ENCODER, DECODER, CTC_PIECES, DECODER_PIECES = (
    "model.json",
    "encoder.safetensors",
    "decoder.safetensors",
    "pieces.model",
    "decoder_pieces.json",
)


def model_folder(source: str | Path) -> Path:
    """The folder of a model, given that folder or the name of a built-in one; ModelError for what cannot be a name."""
    if source == "":
        raise ModelError("the model's name is empty: give a folder, or en, the built-in one")
    try:
        return Path(source) if Path(source).is_dir() else MODELS / str(source)
    except TypeError as error:
        raise ModelError(f"a model is the name of one or its folder, not {source!r}") from error
    except OSError as error:
        raise ModelError(f"no model {source}: {error.strerror}") from error


@dataclass(frozen=True)
class ModelConfig:
    """All sizes of a model; `decoder` None = CTC only. `about` says where the weights came from."""

    features: FeatureConfig = field(default_factory=FeatureConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: DecoderConfig | None = None
    about: str = ""

    def __post_init__(self) -> None:
        if self.encoder.mels != self.features.mels:
            raise ValueError(f"encoder.mels: must be features.mels, {self.features.mels}, not {self.encoder.mels}")
        if self.decoder is not None and self.decoder.d_model != self.encoder.d_model:
            raise ValueError(
                f"decoder.d_model: must be encoder.d_model, {self.encoder.d_model}, not {self.decoder.d_model}"
            )


@dataclass
class ModelState:
    """One or more streams from samples to posteriors. Rows are streams, and all rows step together.

    Attributes:
        features: samples that later frames reach back to.
        pending: `(batch, n, mels)` log10 power frames that wait for their chunk to be complete.
        level: what the level control knows.
        encoder: the encoder's state; None: the streams are listened to only, not encoded.
        gain: `(batch,)` a fixed gain, or None: the level is followed.
        chunk: positions that are emitted at a time.
        look_ahead: positions after the chunk that are computed with it.
    """

    features: LogMelState
    pending: Tensor = field(metadata={"empty": SILENCE})
    level: LevelState
    encoder: EncoderState | None
    gain: Tensor | None = field(metadata={"keep": True})
    chunk: int = field(metadata={"keep": True})
    look_ahead: int = field(metadata={"keep": True})


@dataclass(frozen=True)
class Chunk:
    """What the model makes of one chunk of its rows.

    Attributes:
        window: `(batch, frames, mels)` log10 power, the chunk's own frames and those that it sees ahead.
        own: positions of the chunk.
        gain: `(batch,)` at which it is heard.
        loud_from: `(batch,)` the mean square from which on a sound stands out, given all that was heard so far.
        memory: `(batch, own, d_model)`, for the attention decoder; no positions where nothing was encoded.
        log_probs: `(batch, own, vocabulary)`, CTC; no positions where it was not asked for.
    """

    window: Tensor
    own: int
    gain: Tensor
    loud_from: Tensor
    memory: Tensor
    log_probs: Tensor

    @property
    def log_power(self) -> Tensor:
        """`(batch, frames, mels)` log10 power, the chunk's own frames."""
        return self.window[:, : self.own * SUBSAMPLING]


class SpeechModel(nn.Module):
    """Samples -> memory and CTC log-probabilities, with the attention decoder that reads the memory.

    Frames of log10 power (`features`) go into `advance`, chunk by chunk as a stream, or into `encode`, whole utterances
    with full context.
    """

    def __init__(self, config: ModelConfig, tokenizer: CtcTokenizer, decoder_pieces: PieceTable | None = None) -> None:
        super().__init__()
        self.config, self.tokenizer, self.decoder_pieces = config, tokenizer, decoder_pieces
        self.features = LogMel(config.features)
        self.encoder = StreamingEncoder(config.encoder)
        self.decoder = None if config.decoder is None else AttentionDecoder(config.decoder)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.encoder.ctc.weight.device

    @property
    def position_seconds(self) -> float:
        """How long one encoder position is."""
        return self.config.features.hop * SUBSAMPLING / self.config.features.sample_rate

    @property
    def position_samples(self) -> int:
        """How many samples one encoder position is."""
        return self.config.features.hop * SUBSAMPLING

    def positions(self, milliseconds: float) -> int:
        """Milliseconds rounded to whole positions."""
        return round(milliseconds / 1000 / self.position_seconds)

    def start(
        self,
        batch: int = 1,
        *,
        chunk: int = 13,
        look_ahead: int = 13,
        gain: Tensor | float | None = None,
        encode: bool = True,
    ) -> ModelState:
        """The state of fresh streams.

        Args:
            batch: how many.
            chunk: positions that are emitted at a time.
            look_ahead: positions after the chunk that it may see.
            gain: a fixed one, a number or `(batch,)`; None follows the level of speech.
            encode: off: their frames and level are followed and nothing else, which costs next to nothing.
        """
        if chunk < 1 or look_ahead < 0:
            raise ValueError(f"chunk {chunk} must be at least 1 position, look-ahead {look_ahead} at least 0")
        like = self.encoder.ctc.weight
        return ModelState(
            self.features.start(batch),
            like.new_zeros(batch, 0, self.config.features.mels),
            LevelState.start(batch, like),
            self.encoder.start(batch, chunk + look_ahead) if encode else None,
            None if gain is None else torch.as_tensor(gain, dtype=like.dtype, device=like.device).expand(batch),
            chunk,
            look_ahead,
        )

    def advance(
        self, log_power: Tensor, state: ModelState, *, final: bool = False, ctc: bool = True
    ) -> tuple[list[Chunk], ModelState]:
        """Further frames `(batch, time, mels)` of log10 power -> the chunks that they complete.

        `final` flushes what is pending; without `ctc` there is only the memory. The state passed in is consumed.
        """
        pending, level, inner = torch.cat([state.pending, log_power], 1), state.level, state.encoder
        chunks = []
        while (window := next_window(pending.shape[1], state.chunk, state.look_ahead, final))[1]:
            size, own = (positions * SUBSAMPLING for positions in window)
            frames, nothing = pending[:, :size], self.encoder.nothing(len(pending))
            followed, level = follow_level(self.features.mean_square(frames), own, level)
            gain = followed if state.gain is None else state.gain
            chunk = Chunk(frames, window[1], gain, loud_from(level), nothing.memory, nothing.log_probs)
            if inner is not None:
                chunk, inner = self.encode_chunk(chunk, inner, ctc=ctc)
            chunks.append(chunk)
            pending = pending[:, own:]
        pending = pending[:, :0] if final else pending
        return chunks, replace(state, pending=pending, level=level, encoder=inner)

    def encode_chunk(self, chunk: Chunk, state: EncoderState, *, ctc: bool = True) -> tuple[Chunk, EncoderState]:
        """A chunk that was listened to -> the same with its memory and posteriors. The state is consumed."""
        output, state = self.encoder(scale_frames(chunk.window, chunk.gain), state, chunk.own, ctc=ctc)
        return replace(chunk, memory=output.memory, log_probs=output.log_probs), state

    def forward(
        self, samples: Tensor, state: ModelState | None = None, *, final: bool = False, ctc: bool = True
    ) -> tuple[EncoderOutput, ModelState]:
        """Samples `(batch, time)` -> what the chunks that they complete say, as `advance` of their frames."""
        state = self.start(samples.shape[0]) if state is None else state
        log_power, features = self.features(samples, state.features)
        chunks, state = self.advance(log_power, state, final=final, ctc=ctc)
        batch = samples.shape[0]
        parts = [self.encoder.nothing(batch), *chunks]
        memory, log_probs = (torch.cat([getattr(part, name) for part in parts], 1) for name in ("memory", "log_probs"))
        features = self.features.start(batch) if final else features
        return EncoderOutput(memory, log_probs, torch.full((batch,), memory.shape[1])), replace(
            state, features=features
        )

    def power(self, log_power: Tensor) -> Tensor:
        """Mean square of the sound at each position, `(batch, positions)`, of `(batch, time, mels)` log10 power."""
        return self.features.mean_square(log_power).unflatten(1, (-1, SUBSAMPLING)).mean(2)

    def scale(self, log_power: Tensor, sounding: Tensor | None = None, gain: Tensor | float = 1.0) -> Tensor:
        """Utterances `(batch, time, mels)` of log10 power at the level that the encoder expects.

        Args:
            log_power: padded.
            sounding: `(batch,)` leading frames of each on which its level is measured; default: all.
            gain: a further one, a number or `(batch,)`.
        """
        power = self.features.mean_square(log_power)
        if sounding is None:
            return scale_frames(log_power, level_gain(power.mean(1)) * gain)
        inside = padding_mask(sounding, power.shape[1])
        return scale_frames(log_power, level_gain((power * inside).sum(1) / inside.sum(1).clamp(min=1)) * gain)

    def encode(
        self,
        log_power: Tensor,
        sounding: Tensor | None = None,
        lengths: Tensor | None = None,
        *,
        taps: Sequence[int] = (),
    ) -> EncoderOutput:
        """Whole utterances, each at its own level and with full context.

        Args:
            log_power: `(batch, time, mels)`, padded.
            sounding: as in `scale`.
            lengths: `(batch,)` frames that are no padding; default: all.
            taps: as in `StreamingEncoder.encode`.
        """
        return self.encoder.encode(self.scale(log_power, sounding), lengths, taps=taps)

    # ---- on disk ----

    def save(
        self,
        folder: str | Path,
        *,
        int8: bool = False,
        half: bool = False,
        int8_decoder: bool = False,
        decoder: Path | None = None,
    ) -> None:
        """Writes configuration, weights and tokenizers.

        Args:
            folder: where to.
            int8: encoder and decoder with a scale per output channel.
            half: in half precision.
            int8_decoder: the decoder as with `int8`, whatever the encoder is.
            decoder: the file of a decoder that has not changed, which is copied as it is.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        pack = quantise_all if int8 else halve_all if half else dict
        first = {f"features.{k}": v for k, v in self.features.state_dict().items()}
        save_weights(first | pack(self.encoder.state_dict()), folder / ENCODER)
        if decoder is not None:
            write_whole(folder / DECODER, decoder.read_bytes())
        elif self.decoder is not None:
            pack = quantise_all if int8_decoder else pack
            save_weights(pack(self.decoder.state_dict()), folder / DECODER)
        write_whole(folder / CTC_PIECES, self.tokenizer.model)
        if self.decoder_pieces is not None:
            self.decoder_pieces.save(folder / DECODER_PIECES)
        write_whole(folder / CONFIG, json.dumps(asdict(self.config), indent=1) + "\n")

    @classmethod
    def load(cls, source: str | Path = "en", device: str | torch.device = "cpu") -> SpeechModel:
        """A model by the name of a built-in one or by its folder, ready for inference.

        Raises:
            ModelError: no such model, an unreadable one, or one whose parts do not fit each other.
            AsrError: this machine has no such device.
        """
        device, folder = usable_device(device), model_folder(source)
        try:
            content = read_json(folder / CONFIG)
        except OSError as error:
            if Path(source).is_dir():
                raise ModelError(f"{source}: holds no model ({CONFIG} is missing)") from error
            names = ", ".join(sorted(p.name for p in MODELS.iterdir() if (p / CONFIG).is_file()))
            raise ModelError(f"no model {source}: give the folder of one, or a built-in one ({names})") from error
        config = read_sizes(ModelConfig, content, folder / CONFIG)
        encoder, decoder = config.encoder, config.decoder
        tokenizer = CtcTokenizer.load(folder / CTC_PIECES)
        pieces = None if decoder is None else PieceTable.load(folder / DECODER_PIECES)
        if len(tokenizer) != encoder.vocabulary:
            raise ModelError(
                f"{folder / CTC_PIECES}: makes {len(tokenizer)} outputs, and {CONFIG} says {encoder.vocabulary}"
            )
        weights = load_weights(folder / ENCODER, blocks=encoder.layers + encoder.ctc_layers)
        if decoder is not None:
            if not max(decoder.start, decoder.end) < len(pieces) <= decoder.vocabulary:  # rows may be left over
                raise ModelError(
                    f"{folder / DECODER_PIECES}: holds {len(pieces)} pieces, and {CONFIG} says {decoder.vocabulary}"
                )
            decoder_weights = load_weights(folder / DECODER, blocks=decoder.layers)
        with torch.device("meta"):
            model = cls(config, tokenizer, pieces)
        model.features = LogMel(config.features)
        features = {k.removeprefix("features."): weights.pop(k) for k in list(weights) if k.startswith("features.")}
        assign_weights(model.features, features, folder / ENCODER)
        assign_weights(model.encoder, weights, folder / ENCODER)
        if decoder is not None:
            assign_weights(model.decoder, decoder_weights, folder / DECODER)
        return model.to(device).eval().requires_grad_(False)
