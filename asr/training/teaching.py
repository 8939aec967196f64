"""What a batch is compared with: the frozen teacher's residual streams and the texts that the decoder is to write."""

from __future__ import annotations

import torch
from torch import Tensor

from asr.decoder import AttentionDecoder
from asr.encoder import EncoderOutput
from asr.features import level_gain
from asr.manifest import Utterance
from asr.masks import padding_mask
from asr.model import SpeechModel
from asr.training.config import LossConfig, TeacherSource
from asr.training.data import Batch
from asr.training.losses import Lesson
from asr.training.teacher import WINDOW, Teacher
from asr.training.transcripts import Texts, agrees, as_text, is_written, quick_copy, transcribe_batch


class Teaching:
    """Makes the `Lesson` of each batch.

    Args:
        source: where the teacher is.
        losses: which losses are wanted.
        model: the student, whose frozen attention decoder reads student and teacher alike.
        device: where to compute.

    Raises:
        ModelError: there is no such teacher.
    """

    def __init__(self, source: TeacherSource, losses: LossConfig, model: SpeechModel, device: torch.device) -> None:
        self.source, self.losses = source, losses
        self.decoder: AttentionDecoder | None = model.decoder if losses.decoder else None
        self.scribe = None if self.decoder is None else quick_copy(self.decoder)
        self.table = model.decoder_pieces
        self.sample_rate = model.config.features.sample_rate
        wanted = source.folder is not None and (losses.distillation or losses.decoder)
        self.teacher = Teacher.load(source.folder).to(device) if wanted else None

    @property
    def taps(self) -> tuple[int, ...]:
        """Blocks after which the student's residual stream is compared."""
        return self.losses.taps if self.losses.distillation else ()

    def lesson(
        self, batch: Batch, utterances: list[Utterance], output: EncoderOutput, chunk: int, look_ahead: int
    ) -> Lesson:
        """The student's answer to a batch, with what it is compared with; `batch` holds the clean samples."""
        memory, lengths, taught = self._teach(batch) if self.teacher else (None, None, ())
        texts = None if self.decoder is None else self._texts(batch, utterances, memory, lengths)
        return Lesson(output, batch, self.losses, chunk, look_ahead, self.teacher, taught, lengths, self.decoder, texts)

    @torch.no_grad()
    def _teach(self, batch: Batch) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        sounding = padding_mask(batch.sounding, batch.samples.shape[1])
        power = (batch.samples.square() * sounding).sum(1) / batch.sounding.clamp(min=1)
        samples = batch.samples * level_gain(power)[:, None]
        return self.teacher(samples, batch.sample_lengths.clamp(min=WINDOW), self.taps)

    def _texts(self, batch: Batch, utterances: list[Utterance], memory: Tensor | None, lengths: Tensor | None) -> Texts:
        c = self.decoder.config
        pieces = [as_text(utterance, self.table) for utterance in utterances]
        rows = [row for row, utterance in enumerate(utterances) if memory is not None and not is_written(utterance)]
        if rows:
            seconds = [float(batch.sounding[row]) / self.sample_rate for row in rows]
            heard = transcribe_batch(self.scribe, memory[rows], lengths[rows], seconds)
            for row, written in zip(rows, heard, strict=True):
                if agrees(utterances[row], written, self.table, self.source.agreement):
                    pieces[row] = written
        return Texts.build(pieces, c.start, c.end, batch.samples.device)
