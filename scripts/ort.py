"""Weights of ONNX Runtime's file format (.ort), for the scripts that import models. Needs onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

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

    def products(self) -> dict[str, str]:
        """Name of each matrix product in the branch without a cache -> name of its weight."""
        found = {}
        for node in (self.graph.Nodes(i) for i in range(self.graph.NodesLength())):
            for attribute in (node.Attributes(a) for a in range(node.AttributesLength())):
                if node.OpType() != b"If" or attribute.Name() != b"else_branch":
                    continue
                branch = attribute.G()
                for inner in (branch.Nodes(j) for j in range(branch.NodesLength())):
                    if inner.OpType() == b"MatMul" and inner.Inputs(1).endswith(b"_add_tensor"):
                        found[inner.Name().decode()] = inner.Inputs(1).decode().removesuffix("_add_tensor")
        return found

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
