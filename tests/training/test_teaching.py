"""Distillation and the decoder's texts: the teacher, what the losses compare, and what a run from a model keeps."""

import json

import pytest
import torch
from torch.nn import functional as F

from asr.errors import ConfigError
from asr.manifest import Utterance
from asr.nn.encoder import EncoderOutput
from asr.nn.masks import FULL_CONTEXT
from asr.nn.speech_model import SpeechModel
from asr.nn.weights import save_weights
from asr.search.greedy import attention_greedy
from asr.training.config import LossConfig
from asr.training.losses import Lesson, decoder_loss, distillation_loss, teacher_power, text_size, visible_future
from asr.training.teacher import CONFIG, DELAY, HOP, WEIGHTS, WINDOW, Teacher
from asr.training.transcripts import IGNORED, Texts, agrees, as_sentence, as_text, is_written
from tests.small import DECODER, small_decoder, small_encoder
from tests.training.run_asr import logged
from tests.training.small_runs import SIZES, small_teacher, train


def test_a_teachers_positions_are_as_far_apart_as_the_students_and_padding_changes_nothing():
    teacher = small_teacher()
    long, short = 0.1 * torch.randn(WINDOW + 40 * HOP), 0.1 * torch.randn(WINDOW + 12 * HOP + 7)
    both = torch.stack([long, F.pad(short, (0, len(long) - len(short)))])
    memory, lengths, taps = teacher(both, torch.tensor([len(long), len(short)]), taps=(0, 2))
    alone, _, alone_taps = teacher(short[None], taps=(0, 2))
    assert lengths.tolist() == [41, 13]
    torch.testing.assert_close(memory[1, :13], alone[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(taps[0][1, :13], alone_taps[0][0], atol=1e-5, rtol=0)
    torch.testing.assert_close(teacher.norm(taps[1]), memory)


def test_a_teacher_is_read_from_its_folder(tmp_path):
    teacher = small_teacher()
    (tmp_path / CONFIG).write_text(json.dumps(vars(SIZES)))
    save_weights(teacher.state_dict(), tmp_path / WEIGHTS)
    samples = 0.1 * torch.randn(1, 4000)
    assert torch.equal(Teacher.load(tmp_path)(samples)[0], teacher(samples)[0])


def lesson(student, taught, lengths, taught_lengths, config, chunk=FULL_CONTEXT, look_ahead=0):
    output = EncoderOutput(student, student, lengths, (student,))
    taught = {"teacher": small_teacher(), "taught": (taught,), "taught_lengths": taught_lengths}
    return Lesson(None, lengths, config, chunk, look_ahead, (1,), **taught), output


def distilled(student, taught, lengths, taught_lengths, config, **mask):
    task, output = lesson(student, taught, lengths, taught_lengths, config, **mask)
    return (distillation_loss(task, [output]) / teacher_power(task)).mean()


def test_a_student_that_says_the_same_one_position_later_has_learnt_everything():
    config = LossConfig(taps=(1,))
    taught = torch.randn(2, 20, 32)
    student = torch.cat([torch.randn(2, DELAY, 32), taught], 1)
    student[1, 11:], taught[1, 10:] = 7.0, -7.0  # padding
    whole, own = torch.tensor([21, 11]), torch.tensor([20, 10])
    assert distilled(student, taught, whole, own, config) == pytest.approx(0, abs=1e-6)
    other = distilled(torch.randn(2, 21, 32), taught, whole, own, config)
    assert other == pytest.approx(2, abs=0.3)  # two unrelated unit-variance vectors


def test_who_sees_little_of_the_future_counts_less():
    assert visible_future(7, 3, 2, torch.device("cpu")).tolist() == [4, 3, 2, 4, 3, 2, 4]
    taught = torch.randn(1, 12, 32)
    student = F.pad(taught, (0, 0, DELAY, 0)).clone()
    student[:, 5] = torch.randn(32)  # the last of its chunk of 6
    lengths = torch.tensor([13]), torch.tensor([12])
    heavy, light = (
        distilled(student, taught, *lengths, LossConfig(taps=(1,), edge=1, edge_weight=w), chunk=6) for w in (1.0, 0.1)
    )
    assert 0 < light < 0.2 * heavy


def test_the_decoders_loss_is_that_of_writing_piece_by_piece():
    decoder = small_decoder()
    memory, lengths = torch.randn(2, 9, 32), torch.tensor([9, 5])
    texts = Texts.build([[5, 6, 7], [8]], DECODER.start, DECODER.end, torch.device("cpu"))
    assert texts.inputs.tolist() == [[DECODER.start, 5, 6, 7], [DECODER.start, 8, 0, 0]]
    assert texts.targets.tolist() == [[5, 6, 7, DECODER.end], [8, DECODER.end, IGNORED, IGNORED]]
    total = 0.0
    for row, text in enumerate(([5, 6, 7], [8])):
        state = decoder.start(memory[row : row + 1, : lengths[row]])
        for piece, following in zip([DECODER.start, *text], [*text, DECODER.end], strict=True):
            logits, state = decoder(torch.tensor([[piece]]), state)
            total -= float(logits[0, -1].log_softmax(-1)[following])
    output = EncoderOutput(memory.requires_grad_(), memory, lengths)
    task = Lesson(None, lengths, LossConfig(), decoder=decoder, texts=texts)
    loss = decoder_loss(task, [output]) / text_size(task)
    assert loss.item() == pytest.approx(total / 6, abs=1e-4)
    loss.backward()
    assert memory.grad[0].abs().sum() > 0
    assert memory.grad[1, 5:].abs().sum() == 0


def test_a_batch_is_transcribed_as_each_row_alone(english):
    torch.manual_seed(0)
    seconds = [1.0, 0.4, 0.7]
    lengths = torch.tensor([40, 16, 28])
    memory = torch.randn(3, 40, 416)
    together = attention_greedy(english.decoder, english.decoder_pieces, memory, lengths, seconds)
    for row, length in enumerate(lengths.tolist()):
        alone = memory[row : row + 1, :length]
        (single,) = attention_greedy(english.decoder, english.decoder_pieces, alone, None, [seconds[row]])
        assert together[row].pieces == single.pieces


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("i think i'm late", "I think I'm late."), ("is  it so?", "Is it so?"), ("", ""), ("mii", "Mii.")],
)
def test_a_text_as_a_sentence(text, sentence):
    assert as_sentence(text) == sentence


def test_what_is_printed_is_taught_as_it_is_and_agreement_is_judged_by_words(english):
    table = english.decoder_pieces
    printed = Utterance("a", 1.0, "hello there", {"written": "Hello, there!"})
    plain = Utterance("a", 1.0, "hello there")
    assert is_written(printed)
    assert not is_written(plain)
    assert table.decode(as_text(printed, table)) == "Hello, there!"
    for text in ("HELLO there!", "Hello, THERE'S", "Hello, I'M there"):
        shouted = Utterance("a", 1.0, "hello there", {"written": text})
        assert not is_written(shouted)
        assert table.decode(as_text(shouted, table)) == "Hello there."
    assert is_written(Utterance("a", 1.0, "i had a plan b", {"written": "I had a plan B."}))
    assert table.decode(as_text(plain, table)) == "Hello there."
    assert agrees(plain, table.encode("Hello, THERE."), table, 0)
    assert not agrees(plain, table.encode("Hello dear."), table, 0.4)
    assert agrees(plain, table.encode("Hello dear."), table, 0.5)


def test_taps_and_the_share_of_ctcs_gradient():
    encoder = small_encoder()
    frames = torch.randn(1, 60, 80)
    for chunk, look_ahead in ((FULL_CONTEXT, 0), (4, 2)):
        output = encoder.encode(frames, chunk=chunk, look_ahead=look_ahead, taps=(0, 1, 2))
        assert [tap.shape for tap in output.taps] == [output.memory.shape] * 3
        torch.testing.assert_close(encoder.norm_memory(output.taps[-1]), output.memory)
    gradients = []
    for share in (1.0, 0.25, 0.0):
        encoder.zero_grad()
        encoder.requires_grad_(True).encode(frames, ctc_gradient=share).log_probs[..., 3].sum().backward()
        gradients.append(encoder.blocks[0].ff.up.weight.grad)
    torch.testing.assert_close(gradients[1], gradients[0] / 4)
    assert not gradients[2].any()
    assert encoder.ctc.weight.grad.any()


def test_a_shorter_left_context_is_what_a_model_with_less_of_it_sees():
    encoder = small_encoder()
    frames = torch.randn(1, 90, 80)
    short = small_encoder(left_context=5)
    expected = short.encode(frames, chunk=4, look_ahead=2).memory
    torch.testing.assert_close(encoder.encode(frames, chunk=4, look_ahead=2, left_context=5).memory, expected)


# ---- a run that goes on from a model ----


def test_it_learns_all_losses_and_keeps_the_decoder_and_what_is_frozen(started):
    folder, settings = started
    trainer = train(folder, settings, "run")
    assert set(logged(folder / "run")[0]["losses"]) == {"ctc", "decoder", "distillation"}
    assert "dev_wer_decoder_streaming" in (folder / "run" / "log.jsonl").read_text()
    before, after = SpeechModel.load(folder / "model"), SpeechModel.load(folder / "run" / "model")
    for name, weight in before.decoder.state_dict().items():
        assert torch.equal(after.decoder.state_dict()[name], weight)
    frozen = before.encoder.state_dict()
    for name, weight in trainer.model.encoder.state_dict().items():
        same = name.startswith(("stem.", "blocks.0."))
        assert torch.equal(weight, frozen[name]) == same or not weight.is_floating_point()


def test_it_is_resumed_exactly(started):
    folder, settings = started
    whole = train(folder, settings, "whole").model.encoder.state_dict()
    shorter = [s if not s.startswith("schedule.steps") else "schedule.time_limit=1e-9" for s in settings]
    train(folder, [*shorter, "schedule.steps=4"], "parts")
    resumed = train(folder, settings, "parts", resume=True).model.encoder.state_dict()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["model.d_model=64", "model.heads=2"], "other sizes"),
        (["start=null"], "losses.decoder: needs an attention decoder"),
        (["teacher.folder=null"], "losses.distillation: needs a teacher"),
        (["losses.ctc=0", "losses.decoder=0", "losses.distillation=0"], "at least one"),
    ],
)
def test_what_does_not_fit_is_named(started, change, message):
    folder, settings = started
    with pytest.raises(ConfigError, match=message):
        train(folder, [*settings, *change], f"refused {message}")
