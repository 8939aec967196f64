"""Moonshine base-en's encoder as the frozen teacher of a training run, checked against ONNX Runtime.

    pip install moonshine-cpp==0.1.4 onnxruntime
    python scripts/recipes/import_moonshine.py runs/teacher

It reads the folder `models/base-en` of the package moonshine-cpp (MIT), the installed one or the one that is named
after the output. `runs/teacher` is what
`teacher.folder` of a training configuration names. The same weights are what the built-in model's encoder started from.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from asr.nn.weights import save_weights
from asr.training.teacher import CONFIG, WEIGHTS, Teacher, TeacherConfig

PRODUCTS = ("query", "key", "value", "proj", "up", "down")  # of each block, in the order of their names
TOLERANCE = 1e-3  # of the memory against ONNX Runtime
ONNX_TYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64}


class OrtGraph:
    """Initialisers and matrix products of an ONNX Runtime file."""

    def __init__(self, path: Path) -> None:
        from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs.InferenceSession import InferenceSession

        self.graph = InferenceSession.GetRootAs(path.read_bytes(), 0).Model().Graph()
        self.tensors = {}
        for i in range(self.graph.InitializersLength()):
            t = self.graph.Initializers(i)
            shape = [t.Dims(k) for k in range(t.DimsLength())]
            array = np.array(t.RawDataAsNumpy()).view(ONNX_TYPES[t.DataType()]).reshape(shape)
            self.tensors[t.Name().decode()] = torch.from_numpy(array)

    def quantised(self, name: str) -> tuple[Tensor, Tensor, Tensor]:
        """int8 values, scale and offset (a float that is added)."""
        t = self.tensors
        return t[f"{name}_quantized"], t[f"{name}_scale"], t[f"{name}_zero_point"]

    def plain(self, name: str) -> Tensor:
        """A tensor in float32, dequantised where it was quantised."""
        if name in self.tensors:
            return self.tensors[name].float()
        value, scale, offset = self.quantised(name)
        return value.float() * scale + offset


def teacher_weights(path: Path, layers: int) -> dict[str, Tensor]:
    """The encoder's weights in float32 under the project's names."""
    graph = OrtGraph(path)
    names = {name.removesuffix("_quantized") for name in graph.tensors}
    products = sorted(
        (n for n in names if n.startswith("onnx::MatMul_") and "_scale" not in n and "_zero" not in n),
        key=lambda name: int(name.split("_")[1]),
    )
    weights = {
        "norm.weight": graph.plain("layer_norm.weight"),
        "norm_stem.weight": graph.plain("onnx::Mul_1942").flatten(),
        "norm_stem.bias": graph.plain("onnx::Add_1943").flatten(),
    }
    for name in ("conv1.weight", "conv2.weight", "conv2.bias", "conv3.weight", "conv3.bias"):
        weights[name] = graph.plain(name)
    for i in range(layers):
        block = f"blocks.{i}."
        size = len(PRODUCTS)
        own = dict(zip(PRODUCTS, (graph.plain(n).T for n in products[size * i : size * (i + 1)]), strict=True))
        weights[block + "att.qkv.weight"] = torch.cat([own["query"], own["key"], own["value"]])
        weights[block + "att.proj.weight"] = own["proj"]
        weights[block + "ff.up.weight"] = own["up"]
        weights[block + "ff.down.weight"] = own["down"]
        weights[block + "ff.up.bias"] = graph.plain(f"layers.{i}.mlp.fc1.bias")
        weights[block + "ff.down.bias"] = graph.plain(f"layers.{i}.mlp.fc2.bias")
        weights[block + "norm_att.weight"] = graph.plain(f"layers.{i}.input_layernorm.weight")
        weights[block + "norm_ff.weight"] = graph.plain(f"layers.{i}.post_attention_layernorm.weight")
    return {name: weight.contiguous() for name, weight in weights.items()}


def parity(teacher: Teacher, path: Path, seconds: float = 10.0) -> float:
    """Largest difference of the memory from ONNX Runtime's, over modulated noise."""
    import onnxruntime

    random = np.random.default_rng(0)
    envelope = np.abs(np.sin(np.arange(int(16000 * seconds)) / 2000))
    samples = (0.1 * envelope * random.standard_normal(len(envelope))).astype(np.float32)[None]
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (reference,) = session.run(None, {"input_values": samples})
    with torch.inference_mode():
        memory, _, _ = teacher(torch.from_numpy(samples))
    return float((memory - torch.from_numpy(reference)).abs().max())


def installed() -> Path:
    """Where the installed package keeps the model."""
    spec = importlib.util.find_spec("moonshine_cpp")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("moonshine-cpp is not installed: pip install moonshine-cpp==0.1.4, or name its models/base-en")
    return Path(spec.submodule_search_locations[0]) / "models" / "base-en"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("moonshine", type=Path, nargs="?")
    args = parser.parse_args()
    path = (args.moonshine or installed()) / "encoder_model.ort"
    if not path.is_file():
        raise SystemExit(f"{path}: no such file: name the folder models/base-en of moonshine-cpp 0.1.4")
    args.out.mkdir(parents=True, exist_ok=True)
    config = TeacherConfig()
    save_weights(teacher_weights(path, config.layers), args.out / WEIGHTS)
    (args.out / CONFIG).write_text(json.dumps(asdict(config), indent=1) + "\n", "utf-8")
    difference = parity(Teacher.load(args.out), path)
    print(f"largest difference from ONNX Runtime: {difference:.1e}")
    if difference > TOLERANCE:
        raise SystemExit(f"more than {TOLERANCE}: the weights were not read as they were meant")
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
