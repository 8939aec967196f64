"""The attention decoder: masked self-attention and cross-attention to the encoder's memory, with cached keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from asr.nn.attention import KeyValueCache
from asr.nn.int8 import Int8Linear, activation_steps, replace_linear
from asr.nn.masks import causal_mask, padding_mask
from asr.nn.positions import Rotary
from asr.nn.sizes import bounded, check_rotary
from asr.nn.transformer import Block


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes of the attention decoder.

    Attributes:
        d_model: width, equal to the encoder's.
        heads: attention heads.
        inner: inner width of the gated feed-forward networks.
        layers: blocks.
        vocabulary: rows of the tied embedding.
        rotary_dim: values of each head that the rotary encoding turns.
        rotary_base: its base.
        start: id of the piece that starts a text.
        end: id of the piece that ends it.
        dropout: in training.
    """

    d_model: int = bounded(416, 1, 65536)
    heads: int = bounded(8, 1, 1024)
    inner: int = bounded(1664, 1, 262144)
    layers: int = bounded(8, 1, 1024)
    vocabulary: int = bounded(32768, 3, 1 << 24)
    rotary_dim: int = bounded(32, 0)
    rotary_base: float = bounded(10000.0, 1, above=True)
    start: int = bounded(1, 0)
    end: int = bounded(2, 0)
    dropout: float = bounded(0.0, 0, 0.9)

    def __post_init__(self) -> None:
        check_rotary(self.rotary_dim, self.d_model, self.heads)
        if self.start == self.end or max(self.start, self.end) >= self.vocabulary:
            raise ValueError(
                f"start: {self.start} and end, {self.end}, must be two pieces of a vocabulary of {self.vocabulary}"
            )


@dataclass
class DecoderState:
    """What has been written, and the memory that is read.

    Rows are texts. Several texts of one utterance (beams) follow each other and share its memory.

    Attributes:
        cache: self-attention keys and values of the pieces so far, of each row.
        memory: for each layer, projected keys and values `(utterances, heads, positions, d_k)`.
        memory_mask: `(utterances, 1, 1, positions)`, True = not padding; None = none, or `memory_lengths` tell.
        memory_lengths: positions of each utterance, on a processor, which reads no further; None = none, or a mask.
        written: pieces in the cache.
    """

    cache: KeyValueCache
    memory: list[tuple[Tensor, Tensor]]
    memory_mask: Tensor | None = None
    memory_lengths: list[int] | None = None
    written: int = 0

    @property
    def rows(self) -> int:
        """How many texts."""
        return self.cache.keys.shape[0]

    def select(self, rows: Sequence[int]) -> DecoderState:
        """A copy with these rows, in this order; a row may come several times, or not at all.

        Those of one utterance follow each other, as many of each utterance that stays. Its memory is not copied where
        all stay.
        """
        utterances = len(self.memory[0][0])
        beams = self.rows // utterances
        stay = list(dict.fromkeys(row // beams for row in rows))
        if [row // beams for row in rows] != [one for one in stay for _ in range(len(rows) // len(stay))]:
            raise ValueError(f"rows {list(rows)}: each utterance must have as many, one after the other")
        memory, mask, lengths = self.memory, self.memory_mask, self.memory_lengths
        if stay != list(range(utterances)):
            memory = [(k[stay], v[stay]) for k, v in memory]
            mask = None if mask is None else mask[stay]
            lengths = None if lengths is None else [lengths[one] for one in stay]
        return replace(self, cache=self.cache.select(rows), memory=memory, memory_mask=mask, memory_lengths=lengths)

    def truncate(self, length: int) -> None:
        """Takes back all pieces from `length` on."""
        self.cache.truncate(length)
        self.written = min(self.written, length)


class AttentionDecoder(nn.Module):
    """Pieces so far + memory -> logits of the next piece.

    `start` projects a memory, `forward` goes on from a state by any number of pieces at once (a draft is checked in one
    pass), `DecoderState.truncate` takes pieces back.
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = c = config
        weight = torch.empty(c.vocabulary, c.d_model)
        if not weight.is_meta:  # drawing numbers on "meta" would import a compiler, for a second
            nn.init.normal_(weight, std=c.d_model**-0.5)
        self.embedding = nn.Embedding.from_pretrained(weight, freeze=False)
        rotary = Rotary(c.rotary_dim, c.rotary_base)
        self.blocks = nn.ModuleList(
            Block(c.d_model, c.heads, c.inner, rotary=rotary, cross=True, gated=True, dropout=c.dropout)
            for _ in range(c.layers)
        )
        self.norm = nn.LayerNorm(c.d_model, bias=False)
        self._output: Int8Linear | None = None

    def to_int8(self) -> AttentionDecoder:
        """Makes this decoder, on a processor and for inference only, several times faster, by products in int8.

        Where this build of torch has none, nothing changes.
        """
        if self._output is None and self.embedding.weight.device.type == "cpu" and activation_steps():
            replace_linear(self, Int8Linear)
            self._output = Int8Linear(self.embedding.weight)
        return self

    def start(self, memory: Tensor, lengths: Tensor | None = None, max_pieces: int = 256) -> DecoderState:
        """The state before the first piece, over a memory `(batch, positions, d_model)` of `lengths` `(batch,)`.

        `max_pieces` is the number of pieces, the start piece included, that can be written.
        """
        c, batch = self.config, memory.shape[0]
        cache = KeyValueCache.empty(batch, c.layers, c.heads, max_pieces, c.d_model // c.heads, memory)
        projected = (block.cross.project_memory(memory) for block in self.blocks)
        # Read from end to end at each step, which takes half the time where it lies in one piece.
        state = DecoderState(cache, [(k.contiguous(), v.contiguous()) for k, v in projected])
        if lengths is not None and memory.device.type == "cpu":
            state.memory_lengths = lengths.tolist()
        elif lengths is not None:
            state.memory_mask = padding_mask(lengths, memory.shape[1])[:, None, None]
        return state

    def extend(self, memory: Tensor, state: DecoderState) -> None:
        """Appends further memory `(batch, positions, d_model)` to that of a state, for all rows alike."""
        if state.memory_mask is not None or state.memory_lengths is not None:
            raise ValueError("a memory with padding cannot be extended")
        state.memory = [
            (torch.cat([k, new_k], 2), torch.cat([v, new_v], 2))
            for (k, v), (new_k, new_v) in zip(
                state.memory, (block.cross.project_memory(memory) for block in self.blocks), strict=True
            )
        ]

    def revise(self, memory: Tensor, at: int, state: DecoderState) -> None:
        """Replaces that of a state from position `at` on by a better memory `(batch, positions, d_model)`.

        Pieces that are written already stay as they are.
        """
        for (k, v), block in zip(state.memory, self.blocks, strict=True):
            place = slice(at, at + memory.shape[1])
            k[:, :, place], v[:, :, place] = block.cross.project_memory(memory)

    def score(self, pieces: Tensor, memory: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Logits `(batch, n, vocabulary)` of what follows each of whole texts `(batch, n)`, start piece included.

        For training (teacher forcing): what `forward` gives piece by piece, without a cache, so that gradients flow.
        """
        x = self.embedding(pieces)
        positions = torch.arange(pieces.shape[1], device=x.device)[None]
        mask = causal_mask(positions, positions)[:, None]
        memory_mask = None if lengths is None else padding_mask(lengths, memory.shape[1])[:, None, None]
        for block in self.blocks:
            projected = block.cross.project_memory(memory)
            x = block(x, positions=positions, mask=mask, memory=projected, memory_mask=memory_mask)
        return self._logits(x)

    def forward(self, pieces: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Pieces `(batch, n)` that follow those of the state -> logits `(batch, n, vocabulary)` of what comes next.

        The state is changed in place and returned.
        """
        x = self.embedding(pieces)
        positions = torch.arange(state.written, state.written + pieces.shape[1], device=x.device)
        positions = positions.expand(pieces.shape[0], -1)
        keys = state.cache.claim(positions)
        mask = None if pieces.shape[1] == 1 else causal_mask(positions, keys)[:, None]
        for layer, block in enumerate(self.blocks):
            x = block(
                x,
                positions=positions,
                mask=mask,
                cache=state.cache,
                layer=layer,
                memory=state.memory[layer],
                memory_mask=state.memory_mask,
                memory_lengths=state.memory_lengths,
            )
        state.written += pieces.shape[1]
        return self._logits(x), state

    def _logits(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        return F.linear(x, self.embedding.weight) if self._output is None else self._output(x)
