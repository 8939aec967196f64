"""Several channels in one view."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from asr.events import Event, Final, Partial
from asr.formats.writers import channel_prefix

if TYPE_CHECKING:
    from asr.cli.display import LiveDisplay


class InTurns:
    """A view that several threads may call: one call at a time reaches it."""

    def __init__(self, view: Any) -> None:
        turn = threading.Lock()

        def in_turn(method: Callable[..., None]) -> Callable[..., None]:
            def wait(*arguments: object) -> None:
                with turn:
                    method(*arguments)

            return wait

        self.event, self.progress = in_turn(view.event), in_turn(view.progress)
        self.tell, self.warn = in_turn(view.tell), in_turn(view.warn)


class Labelled:
    """A view of several channels, each with its label, on a display that knows of one.

    A partial is shown with those that are open in other channels, as a text in which the first alone can be stable.
    """

    def __init__(self, view: LiveDisplay) -> None:
        self._view = view
        self._open: dict[int, Partial] = {}
        self.progress, self.tell, self.warn = view.progress, view.tell, view.warn

    def event(self, event: Event, channel: int) -> None:
        if isinstance(event, Partial):
            self._open[channel] = event
        else:
            self._open.pop(channel, None)
            if isinstance(event, Final):
                event = replace(event, text=channel_prefix(channel) + event.text)
            self._view.event(event)
        if self._open:
            self._view.event(self._together())

    def _together(self) -> Partial:
        said = [(channel_prefix(channel), self._open[channel]) for channel in sorted(self._open)]
        label, first = said[0]
        return replace(
            first,
            text="  ".join(label + partial.text for label, partial in said),
            stable=label + first.stable if first.stable else "",
            end=max(partial.end for _, partial in said),
        )
