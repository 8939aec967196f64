"""Word error rates on the dev set, over full context as finals are read and over one streaming setting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from asr.evaluation.wer import ErrorRate, Form, error_rate
from asr.nn.encoder import EncoderOutput
from asr.nn.features import FeatureConfig
from asr.nn.masks import FULL_CONTEXT
from asr.nn.speech_model import SpeechModel
from asr.search.ctc import ctc_greedy
from asr.search.greedy import attention_greedy
from asr.text import TEXT_FORMS
from asr.tokenizer import CtcTokenizer
from asr.training.batching import BucketedBatches
from asr.training.config import TrainConfig
from asr.training.data import Batch, BatchReader, read_batches
from asr.training.forward import Forward, Setting
from asr.training.selection import select, target_text
from asr.training.setup import open_manifests

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
    """The utterances that are measured.

    Raises:
        ManifestError: there are none.
    """

    def __init__(self, config: TrainConfig, tokenizer: CtcTokenizer, features: FeatureConfig) -> None:
        self.config, d = config, config.data
        self.selection = select(open_manifests(d.dev), tokenizer, d, features, everything=True)
        self._reader = BatchReader(self.selection, features.sample_rate, features.hop, d.tail_seconds, strict=False)
        self._plan = BucketedBatches(self.selection.durations + d.tail_seconds, d.batch_seconds, 1, None)

    @torch.no_grad()
    def measure(self, model: SpeechModel, forward: Forward, say: Callable[[str], None]) -> DevResult:
        """Error rates of a model as it stands, and some transcripts; `say` shows a line for what cannot be read."""
        model.eval()
        c = self.config.chunks
        settings = Setting(FULL_CONTEXT, 0, None), Setting(c.dev_size, c.dev_look_ahead, None)
        ctc, decoder = [ErrorRate(), ErrorRate()], [ErrorRate(), ErrorRate()]
        examples: list[dict[str, str]] = []
        form = TEXT_FORMS[self.config.data.text]
        for reason, count in self.selection.left_out.items():
            say(f"dev, left out: {count} {reason}")
        for batch in read_batches(self._reader, self._plan, 0, workers=self.config.data.workers):
            for reason in batch.skipped:
                say(f"dev, skipped: {reason}")
            if not len(batch):
                continue
            batch = batch.to(forward.device)
            frames, lengths = forward.frames(batch, augment=False)
            said = [target_text(u.text, self.config.data) for u in self.selection.utterances(batch.indices.tolist())]
            for i, setting in enumerate(settings):
                output = forward.encode(frames, lengths, setting)
                written = {"said": said, "CTC": _ctc_texts(output, model)}
                ctc[i] += _errors(said, written["CTC"], form)
                if model.decoder is not None:
                    written["decoder"] = _decoder_texts(output, batch, model, form)
                    decoder[i] += _errors(said, written["decoder"], form)
            rows = [dict(zip(written, row, strict=True)) for row in zip(*written.values(), strict=True)]
            examples += rows[: EXAMPLES - len(examples)]
        rates = [e.wer for e in (*ctc, *(decoder if model.decoder is not None else ()))]
        return DevResult(*rates, examples=tuple(examples))


def _errors(references: list[str], hypotheses: list[str], form: Form) -> ErrorRate:
    return sum(map(partial(error_rate, form=form), references, hypotheses), ErrorRate())


def _ctc_texts(output: EncoderOutput, model: SpeechModel) -> list[str]:
    log_probs = output.log_probs.cpu()
    return [
        model.tokenizer.decode(ctc_greedy(log_probs[row, :length]))
        for row, length in enumerate(output.lengths.tolist())
    ]


def _decoder_texts(output: EncoderOutput, batch: Batch, model: SpeechModel, form: Form) -> list[str]:
    seconds = [length / model.config.features.sample_rate for length in batch.sounding.tolist()]
    table = model.decoder_pieces
    written = attention_greedy(model.decoder, table, output.memory, output.lengths, seconds)
    return [form(table.decode(text.pieces)) for text in written]
