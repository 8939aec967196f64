"""Drawings of an `Inspection`: a picture file by matplotlib, or characters for a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from asr.errors import AsrError
from asr.inspection.seen import FURTHEST, Inspection

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TICKS = (100.0, 500.0, 1000.0, 2000.0, 4000.0, 8000.0)  # hertz
SHADES = " ░▒▓█"
STEPS = " ▁▂▃▄▅▆▇█"
LIKELY = 12  # CTC outputs that get a row: those that are likeliest anywhere


def draw_picture(inspection: Inspection, path: Path, title: str = "") -> None:
    """Writes a picture; the name's ending says of which kind (png, svg, pdf).

    Raises:
        AsrError: matplotlib is missing, knows no such kind, or the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise AsrError("drawing a picture needs matplotlib: pip install 'asr[inspect]'") from error
    end = inspection.start + len(inspection.speech) * inspection.seconds
    figure = Figure(figsize=(max(9, min(24, 1.6 * (end - inspection.start))), 13), layout="constrained")
    parts = figure.subplots(5, 1, height_ratios=(3, 1, 2.5, 5, 2))
    _spectrogram(parts[0], inspection, end)
    parts[0].set_title(title)
    _gate(parts[1], inspection, end)
    _posteriors(parts[2], inspection, end)
    _attention(parts[3], inspection, end)
    _bias(parts[4], inspection)
    try:
        figure.savefig(path, dpi=110)
    except OSError as error:
        raise AsrError(f"cannot write {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise AsrError(f"{path}: {error}") from error


def _spectrogram(axes: Axes, i: Inspection, end: float) -> None:
    axes.imshow(
        i.frames.T.numpy(), aspect="auto", origin="lower", extent=(i.start, end, 0, i.frames.shape[1]), cmap="magma"
    )
    for word in i.words:
        axes.axvline(word.start, color="white", linewidth=0.6, alpha=0.7)
        axes.axvline(word.end, color="white", linewidth=0.6, alpha=0.7, linestyle=":")
        axes.text((word.start + word.end) / 2, i.frames.shape[1] - 4, word.text, color="white", ha="center", fontsize=8)
    ticks = [hertz for hertz in TICKS if hertz <= i.hertz[-1]]
    axes.set_yticks(torch.searchsorted(i.hertz, torch.tensor(ticks)).tolist(), [f"{hertz:.0f}" for hertz in ticks])
    axes.set(ylabel="hertz (mel scale)", xlim=(i.start, end))


def _gate(axes: Axes, i: Inspection, end: float) -> None:
    time = i.start + (torch.arange(len(i.speech)) + 0.5) * i.seconds
    axes.fill_between(time.numpy(), i.speech.numpy(), step="mid", alpha=0.3)
    axes.plot(time.numpy(), i.speech.numpy(), linewidth=1, label="gate: speech")
    axes.plot(time.numpy(), 1 - i.posteriors[:, 0].numpy(), linewidth=1, label="CTC: any piece")
    axes.set(ylim=(0, 1.02), xlim=(i.start, end), ylabel="probability")
    axes.legend(loc="upper right", fontsize=7)


def _posteriors(axes: Axes, i: Inspection, end: float) -> None:
    likeliest = i.posteriors[:, 1:].amax(0).topk(min(LIKELY, i.posteriors.shape[1] - 1)).indices
    order = likeliest[i.posteriors[:, 1:][:, likeliest].argmax(0).argsort()]
    rows = torch.cat([i.posteriors[:, :1], i.posteriors[:, 1:][:, order]], 1).T
    extent = (i.start, end, len(rows) - 0.5, -0.5)
    axes.imshow(rows.numpy(), aspect="auto", extent=extent, cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
    axes.set_yticks(range(len(rows)), ["blank", *(i.pieces[index] for index in order.tolist())], fontsize=7)
    axes.set(ylabel="CTC")


def _attention(axes: Axes, i: Inspection, end: float) -> None:
    extent = (i.start, end, end, i.start)
    strength = i.attention / i.attention.amax(1, keepdim=True).clamp(min=1e-12)
    axes.imshow(strength.sqrt().numpy(), aspect="auto", extent=extent, cmap="magma", interpolation="nearest")
    who = f"head {i.head}" if i.head else "mean of the heads"
    axes.set(xlabel="attends to (s)", ylabel="from (s)", title=f"attention of layer {i.layer}, {who}")


def _bias(axes: Axes, i: Inspection) -> None:
    seconds = -torch.arange(-FURTHEST, FURTHEST + 1) * i.seconds
    for head, row in enumerate(i.bias, 1):
        width = 2 if head == i.head else 0.8
        axes.plot(seconds.numpy(), row.numpy(), linewidth=width, label=f"head {head}")
    axes.set_xscale("symlog", linthresh=0.1)
    axes.set(xlabel="the key lies so far after the query (s)", ylabel="relative bias", title=f"layer {i.layer}")
    axes.legend(fontsize=6, ncols=4)


# ---- on a terminal ----


def draw_text(inspection: Inspection, width: int = 100, rows: int = 12) -> str:
    """The stretch in characters: words above the spectrogram, the gate and CTC below."""
    i, label = inspection, 8
    width = max(20, width - label)
    lines = [" " * label + line for line in _words(i, width)]
    picture = _shrink(i.frames.T.flip(0)[None], (rows, width))[0]
    picture = (picture - picture.min()) / (picture.max() - picture.min()).clamp(min=1e-6)
    hertz = _shrink(i.hertz.flip(0)[None, :, None], (rows, 1))[0, :, 0].tolist()
    for middle, row in zip(hertz, picture.tolist(), strict=True):
        lines.append(f"{middle:4.0f} Hz".ljust(label) + "".join(SHADES[int(v * 4.999)] for v in row))
    curves = {"gate": i.speech, "CTC": 1 - i.posteriors[:, 0]}
    for name, values in curves.items():
        curve = _shrink(values[None, None], (1, width))[0, 0]
        lines.append(name.ljust(label) + "".join(STEPS[round(v * 8)] for v in curve.clamp(0, 1).tolist()))
    length = len(i.speech) * i.seconds
    lines.append(" " * label + f"{i.start:.2f} s".ljust(width - 10) + f"{i.start + length:.2f} s".rjust(10))
    who = f"head {i.head}" if i.head else "mean of the heads"
    lines.append(f"layer {i.layer}, {who}: {_reach(i)}")
    return "\n".join(line.rstrip() for line in lines)


def _shrink(x: Tensor, size: tuple[int, int]) -> Tensor:
    return F.adaptive_avg_pool2d(x, size) if x.dim() == 3 else F.adaptive_avg_pool2d(x[None], size)[0]


def _words(i: Inspection, width: int) -> list[str]:
    """Words at their times, in as many lines as they need not to cover each other."""
    length = len(i.speech) * i.seconds
    lines: list[str] = []
    for word in i.words:
        column = max(0, min(width - len(word.text), int((word.start - i.start) / length * width)))
        line = next((n for n, text in enumerate(lines) if len(text) < column), len(lines))
        if line == len(lines):
            lines.append("")
        lines[line] = (lines[line].ljust(column) + word.text)[:width]
    return lines


def _reach(i: Inspection) -> str:
    """How far, in the mean, the attention goes back and ahead."""
    position = torch.arange(len(i.attention), dtype=torch.float32)
    distance = position[:, None] - position[None]
    back = (i.attention * distance.clamp(min=0)).sum(1).mean() * i.seconds
    ahead = (i.attention * (-distance).clamp(min=0)).sum(1).mean() * i.seconds
    past = (i.attention * (distance > 0)).sum(1).mean()
    return f"{100 * past:.0f} % looks back; reaches {back:.2f} s back, {ahead:.2f} s ahead"
