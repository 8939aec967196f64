"""The Vision Transformer is the published one: same logits as timm and torchvision, at any size of picture."""

import pytest
import torch
from torch.nn import functional as F

from asr.errors import ModelError
from asr.nn.vit import SIZES, PatchEmbedding, VisionTransformer, ViTConfig, attention_rollout, token_picture
from asr.nn.vit_weights import from_timm, from_torchvision, load_vit, save_vit
from tests.small import randomise

SMALL = ViTConfig(image=(32, 48), patch=(8, 16), channels=2, d_model=24, heads=3, inner=40, layers=3, classes=5)
PARAMETERS = {"ti": 5.7e6, "s": 22.1e6, "b": 86.6e6, "l": 304.3e6}  # table 1 of the paper; Touvron et al. 2021


def small_vit(seed: int = 0, **changes) -> VisionTransformer:
    return randomise(VisionTransformer(ViTConfig(**{**vars(SMALL), **changes})), seed)


def timm_vit(image: tuple[int, int], patch: tuple[int, int], **changes):
    timm = pytest.importorskip("timm")
    sizes = {"embed_dim": 24, "depth": 3, "num_heads": 3, "mlp_ratio": 2, "num_classes": 5, "in_chans": 2, **changes}
    model = timm.models.VisionTransformer(img_size=image, patch_size=patch, dynamic_img_size=True, **sizes)
    return randomise(model, 1)


def test_convolution_of_patches_is_the_projection_of_flattened_patches():
    embedding = PatchEmbedding(3, (4, 6), 10)
    images = torch.randn(2, 3, 12, 18)
    patches = images.unfold(2, 4, 4).unfold(3, 6, 6).permute(0, 2, 3, 1, 4, 5).flatten(3)
    flat = F.linear(patches, embedding.proj.weight.flatten(1), embedding.proj.bias)
    torch.testing.assert_close(embedding(images), flat, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [(32, 48), (64, 48), (24, 80), (96, 144), (16, 32)])
def test_logits_are_those_of_timm_at_the_trained_and_at_other_sizes(size):
    reference = timm_vit((32, 48), (8, 16))
    ours = small_vit(inner=48)
    ours.load_state_dict(from_timm(reference.state_dict(), grid=(4, 3)))
    images = torch.randn(3, 2, *size)
    torch.testing.assert_close(ours(images), reference(images), rtol=0, atol=1e-4)


def test_logits_of_vit_ti_are_those_of_timm():
    timm = pytest.importorskip("timm")
    reference = timm.create_model("vit_tiny_patch16_224", dynamic_img_size=True).eval()
    ours = VisionTransformer(SIZES["ti"]).eval()
    ours.load_state_dict(from_timm(reference.state_dict()))
    for size in (224, 256):
        images = torch.randn(1, 3, size, size)
        with torch.no_grad():
            torch.testing.assert_close(ours(images), reference(images), rtol=0, atol=1e-4)


@pytest.mark.parametrize("hidden", [0, 20])
def test_logits_are_those_of_torchvision_with_either_head(hidden):
    torchvision = pytest.importorskip("torchvision")
    reference = torchvision.models.VisionTransformer(
        32, 8, 3, 4, 24, 48, num_classes=5, representation_size=hidden or None
    )
    reference = randomise(reference, 2)
    config = ViTConfig((32, 32), (8, 8), 3, d_model=24, heads=4, inner=48, layers=3, classes=5, hidden=hidden)
    ours = VisionTransformer(config).eval()
    ours.load_state_dict(from_torchvision(reference.state_dict()))
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(ours(images), reference(images), rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", SIZES)
def test_sizes_have_as_many_parameters_as_published(name):
    with torch.device("meta"):
        model = VisionTransformer(SIZES[name])
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(PARAMETERS[name], rel=0.005)


def test_pictures_that_do_not_divide_into_patches_are_refused():
    with pytest.raises(ValueError, match="33 x 48 does not divide into patches of 8 x 16"):
        small_vit()(torch.zeros(1, 2, 33, 48))
    with pytest.raises(ValueError, match="does not divide"):
        ViTConfig(image=(30, 30), patch=(16, 16))


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float16, 0.05), (torch.bfloat16, 0.4)])
def test_half_precision_reads_pictures_of_other_sizes(dtype, bound):
    """Positions are interpolated in float32: rounded once, they are those of the whole precision."""
    model, images = small_vit(), torch.randn(2, 2, 48, 96)
    exact, positions = model(images), model.positions(6, 6)
    model.to(dtype)
    torch.testing.assert_close(model.positions(6, 6).float(), positions, rtol=2e-2, atol=2e-2)
    assert (model(images.to(dtype)).float() - exact).abs().max() < bound


def test_batch_mates_change_nothing():
    model, images = small_vit(), torch.randn(4, 2, 32, 48)
    torch.testing.assert_close(model(images)[2:3], model(images[2:3]), rtol=0, atol=1e-5)


def test_positions_matter_and_a_picture_is_no_bag_of_patches():
    model, images = small_vit(), torch.randn(1, 2, 32, 48)
    swapped = torch.cat([images[..., 16:], images[..., :16]], -1)
    assert (model(images) - model(swapped)).abs().max() > 1e-2


def test_attention_maps_are_what_the_blocks_use():
    model, images = small_vit(), torch.randn(2, 2, 32, 48)
    maps = model.attention_maps(images)
    assert maps.shape == (2, 3, 3, 13, 13)
    torch.testing.assert_close(maps.sum(-1), torch.ones(2, 3, 3, 13))
    block, x = model.blocks[0], model.embed(images)
    values = block.att.qkv(block.norm_att(x)).chunk(3, -1)[2].unflatten(-1, (3, 8)).transpose(1, 2)
    mixed = (maps[:, 0] @ values).transpose(1, 2).flatten(2)
    torch.testing.assert_close(block.att.proj(mixed), block.att(block.norm_att(x)), rtol=0, atol=1e-4)


def test_rollout_of_one_layer_is_its_mean_map_and_the_residual():
    maps = torch.rand(2, 1, 4, 6, 6).softmax(-1)
    expected = 0.5 * maps[:, 0].mean(1) + 0.5 * torch.eye(6)
    torch.testing.assert_close(attention_rollout(maps), expected)


def test_rollout_follows_attention_from_layer_to_layer():
    """The output's token 0 looks at 1, which had looked at 2: all comes from 2."""
    first, second = torch.eye(3), torch.eye(3)
    first[1], second[0] = torch.tensor([0.0, 0, 1]), torch.tensor([0.0, 1, 0])
    flow = attention_rollout(torch.stack([first, second])[None, :, None], residual=0)
    assert flow[0, 0].tolist() == [0, 0, 1]


def test_picture_of_a_token_has_its_patches_in_place():
    weights = torch.zeros(7)
    weights[0], weights[1 + 4] = 9, 0.5  # the class token itself; second row, second column of 2 x 3
    picture = token_picture(weights, (2, 3), (20, 30))
    assert picture.shape == (20, 30)
    assert divmod(int(picture.argmax()), 30)[0] >= 10
    assert 10 <= divmod(int(picture.argmax()), 30)[1] < 20
    assert picture.max() == 1


def test_fine_tuning_keeps_the_body_and_starts_from_zero_logits():
    model, images = small_vit(hidden=11), torch.randn(2, 2, 32, 48)
    tuned = model.for_classes(7).eval()
    assert torch.equal(tuned(images), torch.zeros(2, 7))
    torch.testing.assert_close(tuned.features(images), model.features(images))


@pytest.mark.parametrize(("pack", "bound"), [("float32", 0.0), ("float16", 0.05), ("int8", 0.3)])
def test_saved_and_loaded_is_the_same(tmp_path, pack, bound):
    model, images = small_vit(hidden=11), torch.randn(2, 2, 32, 48)
    save_vit(model, tmp_path, {"labels": ["a", "ä"]}, pack=pack)
    loaded, extra = load_vit(tmp_path)
    assert extra == {"labels": ["a", "ä"]}
    assert loaded.config == model.config
    assert (loaded(images) - model(images)).abs().max() <= bound


def test_weights_of_something_else_are_told_from_those_of_a_vit():
    with pytest.raises(ModelError, match="no cls_token"):
        from_timm({"fc.weight": torch.zeros(1)})
    weights = {"cls_token": torch.zeros(1, 1, 4), "pos_embed": torch.zeros(1, 7, 4)}
    with pytest.raises(ModelError, match="6 positions are no grid of 2 x 2"):
        from_timm(weights)
    for other in ("dist_token", "blocks.0.attn.q_norm.weight", "blocks.0.mlp.norm.weight", "blocks.0.ls1.gamma"):
        with pytest.raises(ModelError, match=f"{other} has no counterpart"):
            from_timm({**weights, other: torch.zeros(1)}, grid=(2, 3))
