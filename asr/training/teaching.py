"""What a batch is compared with: the frozen teacher's residual streams and the texts that the decoder is to write."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from asr.errors import ConfigError
from asr.manifest import Utterance
from asr.nn.decoder import AttentionDecoder
from asr.nn.features import level_gain
from asr.nn.masks import padding_mask
from asr.nn.speech_model import SpeechModel
from asr.search.greedy import attention_greedy
from asr.training.config import LossConfig, TeacherSource
from asr.training.data import Batch
from asr.training.losses import Lesson, teacher_taps
from asr.training.teacher import WINDOW, Teacher
from asr.training.transcripts import Texts, agrees, as_text, is_written, quick_copy


class Teaching:
    """Makes the `Lesson` of each batch.

    Args:
        source: where the teacher is.
        losses: which losses are wanted.
        model: the student; its attention decoder, where it can read already, reads the teacher's memory, too. Where it
            is of another width than the teacher, it is given `bridges`, which learn with it and are not exported.
        device: where to compute.
        reads: whether the model's decoder can read.

    Raises:
        ConfigError: the losses name blocks that student or teacher do not have.
        ModelError: there is no such teacher.
    """

    def __init__(
        self, source: TeacherSource, losses: LossConfig, model: SpeechModel, device: torch.device, *, reads: bool = True
    ) -> None:
        self.source, self.losses, self.model = source, losses, model
        self.decoder: AttentionDecoder | None = model.decoder if losses.decoder else None
        self.table = model.decoder_pieces
        self.sample_rate = model.config.features.sample_rate
        wanted = source.folder is not None and (losses.distillation or (losses.decoder and reads))
        self.teacher = Teacher.load(source.folder).to(device) if wanted else None
        transcribes = self.decoder is not None and self.teacher and reads and source.agreement is not None
        self.scribe = quick_copy(self.decoder) if transcribes else None
        self._check_blocks()
        self.bridges = self._bridges(device) if losses.distillation else None

    def _check_blocks(self) -> None:
        losses, c = self.losses, self.model.config.encoder
        blocks = c.layers + c.ctc_layers
        if losses.distillation and max(losses.taps) > blocks:
            raise ConfigError(f"losses.taps: the model has {blocks} blocks, not {max(losses.taps)}")
        if losses.distillation and max(teacher_taps(losses)) > len(self.teacher.blocks):
            last = max(teacher_taps(losses))
            raise ConfigError(f"losses.teacher_taps: the teacher has {len(self.teacher.blocks)} blocks, not {last}")
        if losses.intermediate and max(losses.intermediate_blocks) >= blocks:
            raise ConfigError(
                f"losses.intermediate_blocks: must lie before the last of {blocks} blocks, which CTC reads anyway"
            )

    def _bridges(self, device: torch.device) -> nn.ModuleDict | None:
        width, wide = self.model.config.encoder.d_model, self.teacher.config.d_model
        if width == wide:
            return None
        self.model.bridges = nn.ModuleDict({str(tap): nn.Linear(width, wide, bias=False) for tap in self.losses.taps})
        return self.model.bridges.to(device)

    @property
    def taps(self) -> tuple[int, ...]:
        """Blocks after which the losses read the student's residual stream."""
        distilled = self.losses.taps if self.losses.distillation else ()
        read = self.losses.intermediate_blocks if self.losses.intermediate else ()
        return tuple(sorted({*distilled, *read}))

    def lesson(self, batch: Batch, utterances: list[Utterance], lengths: Tensor, chunk: int, look_ahead: int) -> Lesson:
        """What the student's answers to a batch will be compared with; `batch` holds the clean samples.

        `lengths` `(batch,)` are the positions of its answers.
        """
        memory, taught_lengths, taught = self._teach(batch) if self.teacher else (None, None, ())
        texts = None if self.decoder is None else self._texts(batch, utterances, memory, taught_lengths)
        return Lesson(
            batch,
            lengths,
            self.losses,
            chunk,
            look_ahead,
            self.taps,
            self.model.encoder.posteriors,
            self.teacher,
            taught,
            taught_lengths,
            self.bridges,
            self.decoder,
            texts,
        )

    @torch.no_grad()
    def _teach(self, batch: Batch) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        sounding = padding_mask(batch.sounding, batch.samples.shape[1])
        power = (batch.samples.square() * sounding).sum(1) / batch.sounding.clamp(min=1)
        samples = batch.samples * level_gain(power)[:, None]
        taps = teacher_taps(self.losses) if self.losses.distillation else ()
        return self.teacher(samples, batch.sample_lengths.clamp(min=WINDOW), taps)

    def _texts(self, batch: Batch, utterances: list[Utterance], memory: Tensor | None, lengths: Tensor | None) -> Texts:
        c = self.decoder.config
        pieces = [as_text(utterance, self.table) for utterance in utterances]
        rows = [
            row for row, utterance in enumerate(utterances) if self.scribe is not None and not is_written(utterance)
        ]
        if rows:
            seconds = [float(batch.sounding[row]) / self.sample_rate for row in rows]
            with torch.autocast(memory.device.type, enabled=False):  # caches of keys have one type
                heard = attention_greedy(self.scribe, self.table, memory[rows].float(), lengths[rows], seconds)
            for row, text in zip(rows, heard, strict=True):
                if agrees(utterances[row], text.pieces, self.table, self.source.agreement):
                    pieces[row] = text.pieces
        return Texts.build(pieces, c.start, c.end, batch.samples.device)
