"""What every streaming module promises, and what a test has to know of one to hold it to that.

However its input is cut, the same comes out; the future changes nothing; nor do batch mates; a row that is reset is a
fresh stream; what is kept does not grow.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from asr.nn.states import reset_rows, select_rows
from tests.small import cuts

Step = Callable[[Tensor, Any, bool], tuple[Tensor, Any]]


@dataclass(frozen=True)
class Streaming:
    """A streaming module. Inputs are `(batch, time, ...)`, outputs likewise, in a time of their own.

    Attributes:
        make: `(batch, size, generator)` -> a random input of `size` in time.
        start: batch -> the state of fresh streams.
        step: the next input, the state, and whether it is the last -> what comes out, and the state after it.
        settled: inputs that have come -> outputs that must have come out by then.
        size: inputs of the longest example.
        least: inputs of the shortest one.
        unit: inputs come in multiples of it.
        hop: inputs an output.
        silence: the input that a reset row has in the place of what is pending.
        whole: what comes of an input at once, where that is computed in another way.
        tolerance: absolute.
    """

    make: Callable[[int, int, torch.Generator], Tensor]
    start: Callable[[int], Any]
    step: Step
    settled: Callable[[int], int]
    size: int
    least: int = 1
    unit: int = 1
    hop: int = 1
    silence: float = 0.0
    whole: Callable[[Tensor], Tensor] | None = None
    tolerance: float = 1e-4

    def draw(self, data: st.DataObject, batch: int) -> Tensor:
        """A random input of any size."""
        size = data.draw(st.integers(-(-self.least // self.unit), self.size // self.unit), "size") * self.unit
        return self.make(batch, size, torch.Generator().manual_seed(data.draw(st.integers(0, 99), "seed")))

    def run(self, x: Tensor, pieces: list[int]) -> Tensor:
        """What comes of an input that comes in pieces."""
        state, out, parts = self.start(len(x)), [], x.split(pieces, 1)
        for number, part in enumerate(parts, start=1):
            y, state = self.step(part, state, number == len(parts))
            out.append(y)
        return torch.cat(out, 1)

    def at_once(self, x: Tensor) -> Tensor:
        return self.run(x, [x.shape[1]]) if self.whole is None else self.whole(x)

    def equal(self, got: Tensor, expected: Tensor) -> None:
        torch.testing.assert_close(got, expected, atol=self.tolerance, rtol=0)


def check_cuts(module: Streaming, data: st.DataObject) -> None:
    x = module.draw(data, batch=2)
    units = x.shape[1] // module.unit
    longest = data.draw(st.sampled_from([-(-units // 50), -(-units // 6), units]), "longest piece")
    pieces = [module.unit * size for size in cuts(data.draw, units, longest)]
    module.equal(module.run(x, pieces), module.at_once(x))


def check_one_by_one(module: Streaming) -> None:
    size = min(600, module.size) // module.unit * module.unit
    x = module.make(2, size, torch.Generator().manual_seed(0))
    module.equal(module.run(x, [module.unit] * (size // module.unit)), module.at_once(x))


def check_future(module: Streaming, data: st.DataObject) -> None:
    """What has come out by some time is the same whatever comes later, and nothing is held back."""
    x, other = module.draw(data, batch=1), module.draw(data, batch=1)
    heard = data.draw(st.integers(1, x.shape[1] // module.unit), "heard") * module.unit
    said, _ = module.step(x[:, :heard], module.start(1), False)
    assert said.shape[1] >= module.settled(heard)
    for future in (x[:, heard:], other):
        whole = module.at_once(torch.cat([x[:, :heard], future], 1))
        module.equal(whole[:, : said.shape[1]], said)


def check_batch_mates(module: Streaming, data: st.DataObject) -> None:
    x = module.draw(data, batch=3)
    together = module.at_once(x)
    for row in range(3):
        module.equal(together[row : row + 1], module.at_once(x[row : row + 1]))


def check_reset(module: Streaming, data: st.DataObject) -> None:
    """A row that is reset, at any time, is a fresh stream that began with what was pending as silence."""
    before, after = module.draw(data, batch=2), module.draw(data, batch=2)
    said, state = module.step(before, module.start(2), False)
    pending = before.shape[1] - module.hop * said.shape[1]
    other = select_rows(state, [0])
    reset_rows(state, [1])
    again, _ = module.step(after, state, True)
    going_on, _ = module.step(after[:1], other, True)
    module.equal(again[:1], going_on)
    quiet = torch.full_like(before[1:, :pending], module.silence)
    fresh = module.run(torch.cat([quiet, after[1:]], 1), [pending, after.shape[1]] if pending else [after.shape[1]])
    module.equal(again[1:], fresh)


def check_memory(module: Streaming) -> None:
    """Once it holds what it needs of the past, a state is as large for ever."""
    g, state, kept = torch.Generator().manual_seed(0), module.start(1), []
    for _ in range(12):
        size = max(module.size // 3 // module.unit, 1) * module.unit
        _, state = module.step(module.make(1, size, g), state, False)
        kept.append(kept_bytes(state))
    assert max(kept[6:]) <= 1.1 * max(kept[:6])


def kept_bytes(root: Any, besides: Any = ()) -> int:
    """Bytes of all tensors and arrays that an object keeps alive, without those that `besides` does.

    Storages are counted, each once: a view is as large as what it is a view of.
    """
    without = _storages(besides)
    return sum(size for place, size in _storages(root).items() if place not in without)


def _storages(root: Any) -> dict[int, int]:
    """Where in memory the data of all tensors and arrays that can be reached begin, and how many bytes they are."""
    seen, waiting, sizes = set(), [root], {}
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, type | ModuleType | FunctionType):
            continue
        seen.add(id(item))
        if isinstance(item, Tensor):
            sizes[item.untyped_storage().data_ptr()] = item.untyped_storage().nbytes()
        elif isinstance(item, np.ndarray):
            owner = item.base if isinstance(item.base, np.ndarray) else item
            sizes[owner.ctypes.data] = owner.nbytes
        waiting += gc.get_referents(item)
    return sizes
