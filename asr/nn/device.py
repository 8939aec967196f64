"""Where to compute."""

from __future__ import annotations

import torch

from asr.errors import AsrError


def usable_device(name: str | torch.device) -> torch.device:
    """The device of a name such as `cpu` or `cuda:1`.

    Raises:
        AsrError: this machine has no such device.
    """
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).tolist()
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        raise AsrError(f"device {name}: this machine has no such device; use cpu") from error
    return device
