"""`asr devices`: the inputs that `asr live` can listen to."""

from __future__ import annotations


def devices() -> None:
    """List the microphones, and what the computer plays; choose one with `asr live --input-device`.

    $ asr devices
    $ asr live --input-device monitor
    """
    from rich.console import Console
    from rich.table import Table

    from asr.audio.devices import list_inputs
    from asr.errors import MicrophoneError
    from asr.text import printable

    inputs = list_inputs()
    if not inputs:
        raise MicrophoneError("no microphone found: connect one and try again")
    table = Table("", "index", "name", "host API", "channels", "rate", box=None, pad_edge=False)
    for column in (1, 4, 5):
        table.columns[column].justify = "right"
    table.columns[2].overflow = "fold"
    for device in inputs:
        mark = "*" if device.is_default else ""
        index = "" if device.source else str(device.index)
        table.add_row(
            mark, index, printable(device.name), printable(device.host_api), str(device.channels), f"{device.rate} Hz"
        )
    console = Console(markup=False, highlight=False)
    console.print(table)
    console.print("* is used when none is named")
    if any(device.source for device in inputs):
        console.print("without index: what the computer plays; monitor: at the output in use")
