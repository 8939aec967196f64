"""The streaming encoder: strided convolutions, transformer blocks over chunks with look-ahead, and the CTC branch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from asr.nn.attention import ChunkWindows, KeyValueCache
from asr.nn.masks import padding_mask
from asr.nn.positions import Diagonals, Rotary
from asr.nn.sizes import bounded, check_rotary
from asr.nn.transformer import Block

SUBSAMPLING = 3  # frames a position: stride of the stem


@dataclass(frozen=True)
class EncoderConfig:
    """Sizes of the encoder.

    Attributes:
        mels: width of the input frames.
        d_model: width of the blocks.
        heads: attention heads.
        inner: inner width of the feed-forward networks.
        layers: blocks up to the memory.
        ctc_layers: further blocks of the CTC branch.
        ctc_after: block after which the branch leaves the memory's blocks; None = after the last of them.
        vocabulary: CTC outputs, the blank (0) included.
        left_context: positions before a chunk that it may attend to.
        rotary_dim: values of each head that the rotary encoding turns.
        rotary_base: its base.
        buckets: buckets of the relative bias.
        dropout: in training.
    """

    mels: int = bounded(80, 1, 1024)
    d_model: int = bounded(416, 1, 65536)
    heads: int = bounded(8, 1, 1024)
    inner: int = bounded(1664, 1, 262144)
    layers: int = bounded(8, 1, 1024)
    ctc_layers: int = bounded(1, 0, 1024)
    vocabulary: int = bounded(257, 2, 1 << 24)
    left_context: int = bounded(250, 0, 100_000)
    rotary_dim: int = bounded(32, 0)
    rotary_base: float = bounded(10000.0, 1, above=True)
    buckets: int = bounded(64, 34, 65536)
    dropout: float = bounded(0.0, 0, 0.9)
    ctc_after: int | None = bounded(None, 0)

    def __post_init__(self) -> None:
        check_rotary(self.rotary_dim, self.d_model, self.heads)
        if self.buckets % 2:
            raise ValueError(f"buckets: must be even, not {self.buckets}")
        if self.fork > self.layers:
            raise ValueError(f"ctc_after: must be at most layers, {self.layers}, not {self.fork}")

    @property
    def fork(self) -> int:
        """How many blocks the memory and CTC have in common."""
        return self.layers if self.ctc_after is None else self.ctc_after

    def read_by(self, block: int) -> int:
        """The block whose output a block (counted from 1) reads; 0 = the stem."""
        return self.fork if block == self.layers + 1 else block - 1


@dataclass(frozen=True)
class Chunking:
    """What the positions of whole utterances may see in a masked pass, all counted in positions.

    Attributes:
        chunk: of so many each; longer than any utterance = full context.
        look_ahead: after the chunk.
        left_context: before the chunk; None = as many as the encoder's configuration says.
    """

    chunk: int = 1 << 40
    look_ahead: int = 0
    left_context: int | None = None


FULL_CONTEXT = Chunking()


@dataclass
class StemState:
    """Inputs that the convolutions still reach back to: `(batch, mels, 4)` and `(batch, d_model, 3)`."""

    frames: Tensor
    hidden: Tensor


class Stem(nn.Module):
    """Log-mel frames -> positions, three frames each; position m depends on frames up to 3 m + 2."""

    def __init__(self, mels: int, d_model: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(mels, d_model, 5)
        self.conv2 = nn.Conv1d(d_model, 2 * d_model, 6, stride=SUBSAMPLING)
        self.conv3 = nn.Conv1d(2 * d_model, d_model, 1)

    def start(self, batch: int, like: Tensor) -> StemState:
        return StemState(
            like.new_zeros(batch, self.conv1.in_channels, 4), like.new_zeros(batch, self.conv2.in_channels, 3)
        )

    def forward(
        self, frames: Tensor, state: StemState | None = None, own: int | None = None
    ) -> tuple[Tensor, StemState]:
        """Scaled frames `(batch, 3 n, mels)` -> `(batch, n, d_model)`.

        Only the first `own` positions (default: all) move the state; later ones are look-ahead and will come again.
        """
        if frames.shape[1] % SUBSAMPLING:
            raise ValueError(f"the stem reads whole positions of {SUBSAMPLING} frames, not {frames.shape[1]} frames")
        state = self.start(frames.shape[0], frames) if state is None else state
        kept = frames.shape[1] if own is None else own * SUBSAMPLING
        x = torch.cat([state.frames, frames.transpose(1, 2)], 2)
        h = torch.cat([state.hidden, F.gelu(self.conv1(x))], 2)
        state = StemState(x[:, :, kept : kept + 4], h[:, :, kept : kept + 3])
        return F.gelu(self.conv3(F.gelu(self.conv2(h)))).transpose(1, 2), state


@dataclass
class EncoderOutput:
    """What the encoder says of a stretch of positions.

    Attributes:
        memory: `(batch, positions, d_model)`, for the attention decoder.
        log_probs: `(batch, positions, vocabulary)`, CTC; no positions where it was not asked for.
        lengths: `(batch,)` positions that are no padding.
        taps: the residual stream `(batch, positions, d_model)` after each block that was asked for (0 = the stem).
    """

    memory: Tensor
    log_probs: Tensor
    lengths: Tensor
    taps: tuple[Tensor, ...] = ()


@dataclass
class EncoderState:
    """Where a stream stands. All tensors have a leading batch dimension: rows are streams.

    Attributes:
        stem: what the convolutions reach back to.
        cache: keys and values of the left context.
        position: `(batch,)` absolute number of the next position.
    """

    stem: StemState
    cache: KeyValueCache
    position: Tensor


@dataclass(frozen=True)
class Layout:
    """What all blocks are told of a pass: which positions its rows are, and whom these may see.

    Attributes:
        positions: absolute, `(rows or 1, time)`.
        mask: `(rows, 1, 1, keys)`, True = may be attended to; none = all may.
        bucket: relative-bias buckets of the diagonals.
        cache: of the left context; none = the rows are whole utterances.
        own: leading positions of a row that are its own, the others look ahead; none = all.
        size: positions of an utterance, where rows are its chunks.
    """

    positions: Tensor
    mask: Tensor | None
    bucket: Diagonals
    cache: KeyValueCache | ChunkWindows | None = None
    own: int | None = None
    size: int = 0

    def split(self, x: Tensor) -> Tensor:
        """`(batch, positions, d_model)` -> rows: each chunk with its followers, where there are chunks."""
        if not isinstance(self.cache, ChunkWindows):
            return x
        width = self.positions.shape[1]
        x = F.pad(x, (0, 0, 0, self.cache.chunks * self.own + width - self.own - x.shape[1]))
        return x.unfold(1, width, self.own).transpose(2, 3).flatten(0, 1)

    def join(self, x: Tensor) -> Tensor:
        """What rows emitted -> `(batch, positions, ...)`."""
        if not isinstance(self.cache, ChunkWindows):
            return x
        return x.unflatten(0, (-1, self.cache.chunks)).flatten(1, 2)[:, : self.size]


def next_window(frames: int, chunk: int, look_ahead: int, final: bool) -> tuple[int, int]:
    """How many positions to compute and to emit when `frames` are pending: `(window, own)`; `(0, 0)` = wait."""
    positions = frames // SUBSAMPLING
    if positions >= chunk + look_ahead or (final and positions):
        return min(positions, chunk + look_ahead), min(positions, chunk)
    return 0, 0


class StreamingEncoder(nn.Module):
    """Frames -> memory and CTC log-probabilities: `forward` one chunk with its followers, `encode` whole utterances in
    one masked pass. Both run the same blocks.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = c = config
        self.stem = Stem(c.mels, c.d_model)
        rotary = Rotary(c.rotary_dim, c.rotary_base)
        self.blocks = nn.ModuleList(
            Block(c.d_model, c.heads, c.inner, rotary=rotary, buckets=c.buckets, dropout=c.dropout)
            for _ in range(c.layers + c.ctc_layers)
        )
        self.norm_memory = nn.LayerNorm(c.d_model, bias=False)
        self.norm_ctc = nn.LayerNorm(c.d_model, bias=False)
        self.ctc = nn.Linear(c.d_model, c.vocabulary)

    def start(self, batch: int = 1, window: int = 26) -> EncoderState:
        """The state of streams of which at most `window` positions will come at a time, look-ahead included."""
        c, like = self.config, self.ctc.weight
        room = 2 * c.left_context + window
        cache = KeyValueCache.empty(batch, len(self.blocks), c.heads, room, c.d_model // c.heads, like, c.left_context)
        position = torch.zeros(batch, dtype=torch.int64, device=like.device)
        return EncoderState(self.stem.start(batch, like), cache, position)

    def nothing(self, batch: int) -> EncoderOutput:
        """The output where there are no positions."""
        c, like = self.config, self.ctc.weight
        none = torch.zeros(batch, dtype=torch.int64, device=like.device)
        return EncoderOutput(like.new_zeros(batch, 0, c.d_model), like.new_zeros(batch, 0, c.vocabulary), none)

    def forward(
        self, frames: Tensor, state: EncoderState | None = None, own: int | None = None, *, ctc: bool = True
    ) -> tuple[EncoderOutput, EncoderState]:
        """One chunk of scaled frames `(batch, 3 n, mels)`: emits its first `own` positions, the others look ahead.

        `own` None emits all; without `ctc` there is only the memory. The state that is passed in is consumed: its cache
        is changed in place.
        """
        own = frames.shape[1] // SUBSAMPLING if own is None else own
        state = self.start(frames.shape[0], frames.shape[1] // SUBSAMPLING) if state is None else state
        x, stem = self.stem(frames, state.stem, own)
        time, device = x.shape[1], x.device
        positions = state.position[:, None] + torch.arange(time, device=device)
        keys = state.cache.claim(positions, own)
        filled = keys >= 0
        mask = None if device.type == "cpu" and filled.all() else filled[:, None, None]  # a GPU is not waited for
        bucket = Diagonals.of(keys.shape[1] - time, time, keys.shape[1], self.config.buckets, device)
        output = self._run(x, Layout(positions, mask, bucket, state.cache, own), ctc=ctc)
        return output, EncoderState(stem, state.cache, state.position + own)

    def encode(
        self,
        frames: Tensor,
        lengths: Tensor | None = None,
        chunking: Chunking = FULL_CONTEXT,
        *,
        taps: Sequence[int] = (),
        ctc_gradient: float = 1.0,
    ) -> EncoderOutput:
        """Whole utterances in one masked pass: what `forward` gives chunk by chunk, or full context (the default).

        Args:
            frames: scaled, `(batch, time, mels)`.
            lengths: `(batch,)` frames of each row; default: all.
            chunking: what their positions see.
            taps: blocks after which the residual stream is handed out (`EncoderOutput.taps`), in ascending order.
            ctc_gradient: share of the CTC branch's gradient that reaches the blocks up to the memory; 0 detaches it.
        """
        x, lengths = self.subsample(frames, lengths)
        layout = self.layout(lengths, x.shape[1], chunking)
        output = self._run(layout.split(x), layout, taps=taps, ctc_gradient=ctc_gradient)
        taps = tuple(layout.join(tap) for tap in output.taps)
        return EncoderOutput(layout.join(output.memory), layout.join(output.log_probs), lengths, taps)

    def subsample(self, frames: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Positions `(batch, positions, d_model)` of whole utterances, and how many each row has."""
        batch, time, _ = frames.shape
        lengths = torch.full((batch,), time, device=frames.device) if lengths is None else lengths
        x, _ = self.stem(frames[:, : time // SUBSAMPLING * SUBSAMPLING])
        # under autocast the residual stream stays in full precision
        return x.to(self.ctc.weight.dtype), lengths // SUBSAMPLING

    def posteriors(self, x: Tensor) -> Tensor:
        """CTC log-probabilities `(..., vocabulary)`, float32, of a residual stream `(..., d_model)`."""
        return self.ctc(self.norm_ctc(x)).float().log_softmax(-1)

    def layout(self, lengths: Tensor, size: int, chunking: Chunking) -> Layout:
        """Who sees whom in one masked pass over `size` positions, of which the rows have `lengths` `(batch,)`."""
        device, chunk, look_ahead = lengths.device, chunking.chunk, chunking.look_ahead
        if chunk >= size:
            positions = torch.arange(size, device=device)[None]
            padded = bool((lengths < size).any())
            mask = padding_mask(lengths, size)[:, None, None] if padded else None
            return Layout(positions, mask, Diagonals.of(0, size, size, self.config.buckets, device))
        left_context = self.config.left_context if chunking.left_context is None else chunking.left_context
        windows = ChunkWindows(-(-size // chunk), chunk, min(left_context, size))
        past = windows.positions(device)
        positions = past[:, -chunk:][:, :1] + torch.arange(chunk + look_ahead, device=device)
        keys = torch.cat([past, positions[:, chunk:]], 1)
        mask = (keys >= 0) & (keys < lengths[:, None, None])
        bucket = Diagonals.of(windows.left_context, chunk + look_ahead, keys.shape[1], self.config.buckets, device)
        positions = positions.repeat(len(lengths), 1)
        return Layout(positions, mask.flatten(0, 1)[:, None, None], bucket, windows, chunk, size)

    def run_blocks(
        self, x: Tensor, layout: Layout, which: range, *, last: bool = False, kept: dict[int, Tensor] | None = None
    ) -> Tensor:
        """Some blocks, one after the other; at the `last` one's end its look-ahead is of no use to anybody.

        `kept` receives the residual stream after each.
        """
        for layer in which:
            x = self.blocks[layer](
                x,
                positions=layout.positions,
                mask=layout.mask,
                bucket=layout.bucket,
                cache=layout.cache,
                layer=layer,
                queries=layout.own if last and layer + 1 == which.stop else None,
            )
            if kept is not None:
                kept[layer + 1] = x
        return x

    def _run(
        self,
        x: Tensor,
        layout: Layout,
        *,
        taps: Sequence[int] = (),
        ctc_gradient: float = 1.0,
        ctc: bool = True,
    ) -> EncoderOutput:
        """Blocks, norms and output layer; emits each row's own positions."""
        own, c, after = layout.own, self.config, {0: x}
        ends = not ctc or c.fork < c.layers  # the memory's last block is the last one that reads its stream
        memory = self.norm_memory(self.run_blocks(x, layout, range(c.layers), last=ends, kept=after)[:, :own])
        if ctc:
            x = after[c.fork]
            x = x if ctc_gradient == 1 else x.detach().lerp(x, ctc_gradient)
            x = self.run_blocks(x, layout, range(c.layers, len(self.blocks)), last=True, kept=after)
            log_probs = self.posteriors(x[:, :own])
        else:
            log_probs = self.nothing(len(memory)).log_probs
        lengths = torch.full((x.shape[0],), memory.shape[1], device=x.device)
        return EncoderOutput(memory, log_probs, lengths, tuple(after[tap][:, :own] for tap in sorted(set(taps))))
