"""Attention decoders that learn: a new one beside the encoder, and that of the model from which a run starts."""

import pytest
import torch

from asr.errors import ConfigError
from asr.manifest import Utterance
from asr.nn.speech_model import DECODER, SpeechModel
from asr.nn.weights import load_weights
from asr.tokenizer import CtcTokenizer
from asr.training.config import OptimiserConfig
from asr.training.optimiser import rate_scale
from asr.training.setup import CtcPieces, hurried_share
from tests.training.run_asr import logged
from tests.training.small_runs import make, prepare, train

NEW = (
    "decoder.layers=1",
    "decoder.heads=2",
    "decoder.inner=32",
    "losses.decoder=1",
    "losses.label_smoothing=0.1",
    "schedule.warmup=1",
)


def test_the_table_writes_ctcs_pieces_and_spells_everything_else():
    tokenizer = CtcTokenizer.train(["ab ba", "abba baab", "bab aba"], 8)
    table = CtcPieces(tokenizer)
    assert table.pieces[1:3] == ["<s>", "</s>"]
    assert set(tokenizer.pieces()) - {"<unk>"} <= set(table.pieces)
    for text in ("abba ba", "Größe, 3 €", "ab 😀"):
        assert table.decode(table.encode(text)) == text
    for text in ("ab ba", "abba baab bab"):
        assert [table.pieces[i] for i in table.encode(text)] == tokenizer.split(text)


def test_texts_that_need_more_pieces_than_a_decoder_may_write_are_counted():
    table = CtcPieces(CtcTokenizer.train(["ab ba", "abba baab", "bab aba"], 8))
    slow, fast = Utterance("a", 10.0, "ab ba"), Utterance("b", 0.5, "ab ba ab ba ab ba ab")
    assert hurried_share([slow, fast], table) == 0.5
    assert hurried_share([slow], table) == 0


def test_a_new_decoder_learns_and_is_exported_in_int8(corpus, tmp_path):
    trainer = make(corpus, tmp_path, *NEW, f"data.dev=[{corpus}]", "schedule.steps=4")
    before = {name: p.detach().clone() for name, p in trainer.model.decoder.named_parameters()}
    trainer.run()
    assert set(logged(tmp_path)[0]["losses"]) == {"ctc", "decoder"}
    assert "dev_wer_decoder" in (tmp_path / "log.jsonl").read_text()
    assert all(not torch.equal(before[name], p) for name, p in trainer.model.decoder.named_parameters())
    model = SpeechModel.load(tmp_path / "model")
    for name, weight in trainer.model.decoder.state_dict().items():
        torch.testing.assert_close(model.decoder.state_dict()[name], weight, atol=0.02, rtol=0)
    assert model.decoder_pieces.decode(model.decoder_pieces.encode("mako teki")) == "mako teki"
    again = make(corpus, tmp_path, *NEW, "schedule.steps=5", resume=True)
    assert torch.equal(again.model.decoder.embedding.weight, trainer.model.decoder.embedding.weight)


def test_the_decoder_of_a_start_learns_where_it_has_a_rate(started):
    folder, settings = started
    trainer = train(folder, [*settings, "optimiser.decoder_rate=0.5", "schedule.steps=2"], "learnt")
    before = load_weights(folder / "model" / DECODER)
    after = load_weights(folder / "learnt" / "model" / DECODER)
    assert not torch.equal(before["blocks.0.ff.up.weight"], after["blocks.0.ff.up.weight"])
    assert (folder / "learnt" / "model" / DECODER).stat().st_size < 0.4 * (folder / "model" / DECODER).stat().st_size
    assert trainer.forward.teaching.scribe is not None
    scribe = trainer.forward.teaching.scribe.embedding.weight
    assert torch.equal(scribe, before["embedding.weight"])


def test_the_cross_attention_of_a_start_learns_alone_where_it_alone_has_a_rate(started):
    folder, settings = started
    before = SpeechModel.load(folder / "model").decoder.state_dict()
    trainer = train(folder, [*settings, "optimiser.cross_rate=0.5", "schedule.steps=2"], "crossed")
    changed = {name for name, p in trainer.model.decoder.named_parameters() if not torch.equal(before[name], p)}
    assert changed == {name for name in before if ".cross." in name or ".norm_cross." in name}
    exported = SpeechModel.load(folder / "crossed" / "model").decoder.state_dict()
    assert not torch.equal(exported["blocks.0.cross.proj.weight"], before["blocks.0.cross.proj.weight"])


def test_an_adapted_model_is_measured_before_and_after_on_what_it_was_not_trained_on(started, capsys):
    folder, settings = started
    held = [*settings, "data.dev=[]", "data.held_out=0.25", "schedule.dev_first=true", "optimiser.start_share=0.5"]
    trainer = train(folder, [*held, "schedule.steps=2"], "adapted")
    shown = capsys.readouterr().err
    assert "step 0: dev WER" in shown
    assert "step 2: dev WER" in shown
    before = SpeechModel.load(folder / "model").encoder.state_dict()
    after = SpeechModel.load(folder / "adapted" / "model").encoder.state_dict()
    for name, learnt in trainer.average.tensors.items():
        name = name.removeprefix("encoder.")
        torch.testing.assert_close(after[name], (before[name] + learnt) / 2, atol=1e-3, rtol=1e-3)


def test_rates_of_decoders():
    assert rate_scale("decoder.blocks.0.cross.proj.weight", OptimiserConfig(cross_rate=0.2), layers=2) == 0.2
    assert rate_scale("decoder.blocks.0.cross.proj.weight", OptimiserConfig(decoder_rate=0.3), layers=2) == 0.3
    assert rate_scale("decoder.norm.weight", OptimiserConfig(), layers=2) == 1
    assert rate_scale("decoder.norm.weight", OptimiserConfig(decoder_rate=0.5), layers=2) == 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["decoder.layers=1"], "has a decoder: leave it out"),
        (["start=null", "losses.distillation=0", "teacher.folder=null"], "needs an attention decoder"),
        (["losses.decoder=0", "decoder.layers=1"], "give it a weight"),
        (["losses.taps=[9]"], "losses.taps: the model has 2 blocks, not 9"),
        (["losses.teacher_taps=[0,9]"], "losses.teacher_taps: the teacher has 1 blocks, not 9"),
        (["losses.teacher_taps=[0]"], "losses.teacher_taps: name one for each of losses.taps, 2"),
        (["losses.intermediate=1", "losses.intermediate_blocks=[2]"], "must lie before the last of 2 blocks"),
    ],
)
def test_what_does_not_go_together_is_named(started, change, message):
    folder, settings = started
    with pytest.raises(ConfigError, match=message):
        prepare(folder, [*settings, *change], f"refused {message}")


def test_a_narrower_student_learns_through_bridges_that_are_not_exported(started, corpus, tmp_path):
    folder, _ = started
    distilled = (
        f"teacher.folder={folder / 'teacher'}",
        "losses.distillation=1",
        "losses.taps=[0,2]",
        "losses.teacher_taps=[0,1]",
        "model.d_model=16",
        "model.layers=2",
        "schedule.warmup=1",
    )
    trainer = make(corpus, tmp_path, *distilled, "schedule.steps=2")
    bridges = {name: p.detach().clone() for name, p in trainer.model.bridges.named_parameters()}
    trainer.run()
    assert all(not torch.equal(bridges[name], p) for name, p in trainer.model.bridges.named_parameters())
    assert SpeechModel.load(tmp_path / "model").config.encoder.d_model == 16
    again = make(corpus, tmp_path, *distilled, "schedule.steps=3", resume=True)
    for name, p in again.model.bridges.named_parameters():
        assert torch.equal(p, dict(trainer.model.bridges.named_parameters())[name])
