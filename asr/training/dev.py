"""Word error rates on the dev set, over full context as finals are read and over one streaming setting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from asr.evaluation.wer import ErrorRate, Form, error_rate
from asr.nn.encoder import FULL_CONTEXT, Chunking
from asr.text import TEXT_FORMS
from asr.training.batching import BucketedBatches
from asr.training.config import TrainConfig
from asr.training.data import BatchReader, Recordings
from asr.training.forward import Forward
from asr.training.selection import select, target_text
from asr.training.setup import open_manifests
from asr.training.transcripts import ctc_texts, decoder_texts

EXAMPLES = 5  # transcripts that are shown


@dataclass(frozen=True)
class DevResult:
    """Word error rates in percent, of greedy CTC and, where there is one, of the attention decoder.

    Attributes:
        full: CTC, the whole utterance as one chunk.
        streaming: CTC, chunks with look-ahead.
        decoder_full: the decoder over a memory with full context, as it reads finals.
        decoder_streaming: the decoder over a memory made of chunks, as it reads partials.
        examples: the first utterances, each as what was said, and what CTC and decoder made of it while streaming.
    """

    full: float
    streaming: float
    decoder_full: float | None = None
    decoder_streaming: float | None = None
    examples: tuple[dict[str, str], ...] = ()

    @property
    def score(self) -> float:
        """What the best checkpoint has the lowest of: the mean over both settings, of the decoder if there is one."""
        if self.decoder_full is None:
            return (self.full + self.streaming) / 2
        return (self.decoder_full + self.decoder_streaming) / 2

    def as_log(self) -> dict[str, float]:
        """Its rates by their names in the log."""
        values = {"dev_wer": self.full, "dev_wer_streaming": self.streaming}
        if self.decoder_full is not None:
            values |= {"dev_wer_decoder": self.decoder_full, "dev_wer_decoder_streaming": self.decoder_streaming}
        return values

    def __str__(self) -> str:
        ctc = f"{self.full:.1f} % with full context, {self.streaming:.1f} % streaming"
        if self.decoder_full is None:
            return ctc
        return f"{ctc}; decoder {self.decoder_full:.1f} %, {self.decoder_streaming:.1f} %"


class DevSet:
    """The utterances on which a model is measured.

    Args:
        config: of the run.
        forward: the model's way through a batch.
        say: shows a line for what cannot be read.

    Raises:
        ManifestError: there are none.
    """

    def __init__(self, config: TrainConfig, forward: Forward, say: Callable[[str], object]) -> None:
        self.config, self.forward, d = config, forward, config.data
        model, features = forward.model, forward.model.config.features
        selection = select(open_manifests(d.dev or d.train), model.tokenizer, d, features, everything=True)
        for reason, count in selection.left_out.items():
            say(f"dev, left out: {count} {reason}")
        reader = BatchReader(selection, features.sample_rate, features.hop, d.tail_seconds, strict=False)
        plan = BucketedBatches(selection.durations + d.tail_seconds, d.batch_seconds, 1, None)
        self._recordings = Recordings(reader, plan, d.workers, say=lambda line: say(f"dev, {line}"))
        changes = config.losses.decoder or config.optimiser.frozen_blocks < model.config.encoder.layers
        self._reads = model.decoder is not None and changes  # else it writes the same all the time

    @torch.no_grad()
    def measure(self) -> DevResult:
        """Error rates of the model as it stands, and some transcripts."""
        forward, c = self.forward, self.config.chunks
        model = forward.model.eval()
        ctc, decoder = [ErrorRate(), ErrorRate()], [ErrorRate(), ErrorRate()]
        examples: list[dict[str, str]] = []
        form = TEXT_FORMS[self.config.data.text]
        for batch in self._recordings.read(0):
            if not len(batch):
                continue
            batch = batch.to(forward.device)
            frames, lengths = forward.frames(batch, augment=False)
            said = [target_text(utterance.text, self.config.data) for utterance in batch.utterances]
            for i, chunking in enumerate((FULL_CONTEXT, Chunking(c.dev_size, c.dev_look_ahead))):
                output = forward.encode(frames, lengths, chunking)
                written = {"said": said, "CTC": ctc_texts(output, model)}
                ctc[i] += _errors(said, written["CTC"], form)
                if self._reads:
                    seconds = (batch.sounding.double() / model.config.features.sample_rate).tolist()
                    written["decoder"] = [form(text) for text in decoder_texts(output, model, seconds)]
                    decoder[i] += _errors(said, written["decoder"], form)
            rows = [dict(zip(written, row, strict=True)) for row in zip(*written.values(), strict=True)]
            examples += rows[: EXAMPLES - len(examples)]
        rates = [e.wer for e in (*ctc, *(decoder if self._reads else ()))]
        return DevResult(*rates, examples=tuple(examples))


def _errors(references: list[str], hypotheses: list[str], form: Form) -> ErrorRate:
    return sum(map(partial(error_rate, form=form), references, hypotheses), ErrorRate())
