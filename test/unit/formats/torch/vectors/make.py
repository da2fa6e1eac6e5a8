"""Makes the files of this folder with torch 2.13 and NumPy 2: `python make.py` here, then `npx biome format --write .`

They are there because torch's own bytes are the point of them. A new run gives the same bytes, but for the legacy files:
the keys of their storages are addresses.

expected.json says of each tensor of each file what torch reads back: dtype, shape, stride, offset, bytes of its storage,
and its elements in row-major order as hex, before a lazy negation or conjugation.
"""

import argparse
import collections
import datetime
import json
import pathlib

import numpy
import torch


def arange(*shape, dtype=torch.float32):
    return torch.arange(torch.Size(shape).numel(), dtype=dtype).reshape(shape)


class Subclass(torch.Tensor):
    pass


def geometry():
    image = arange(2, 3, 2, 2)
    row = arange(6)
    matrix = arange(4, 6)
    return {
        "contiguous": matrix,
        "transposed": matrix.t(),
        "channels_last": image.to(memory_format=torch.channels_last),
        "permuted": image.permute(2, 0, 1, 3),
        "columns": matrix[:, 1:4],
        "rows": matrix[1:3],
        "every_second": matrix[::2, ::3],
        "diagonal": torch.diagonal(matrix),
        "expanded": row.expand(3, 6),
        "expanded_inside": arange(2, 1, 3).expand(2, 4, 3),
        "overlapping": torch.as_strided(row, (3, 3), (1, 1), 1),
        "scalar": torch.tensor(7.0),
        "scalar_view": row[4],
        "empty": torch.zeros(0),
        "empty_matrix": torch.zeros(3, 0),
        "empty_view": row[6:],
        "ones": arange(1, 5, 1, 2),
    }


def dtypes():
    values = {}
    for name in (
        "float32 float64 float16 bfloat16 complex64 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool "
        "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu"
    ).split():
        dtype = getattr(torch, name)
        values[name] = torch.tensor([1, 2, 4, 0, 1, 2]).to(dtype).reshape(2, 3)
        values[f"{name}_view"] = values[name][1:]
    return values


def flips():
    z = torch.tensor([1 + 2j, 3 - 4j])
    return {
        "negated": torch._neg_view(torch.tensor([1.0, -2.0])),
        "conjugated": z.conj(),
        "both": torch._neg_view(z.conj()),
    }


def wrappers():
    parameter = torch.nn.Parameter(arange(3))
    marked = torch.nn.Parameter(arange(2))
    marked.tensor_model_parallel = True
    zero3 = arange(4).requires_grad_()
    zero3.ds_id = "0_5"
    grad = arange(2).requires_grad_()
    return {
        "parameter": parameter,
        "parameter_with_attribute": marked,
        "buffer": torch.nn.Buffer(arange(2)),
        "tensor_with_attribute": zero3,
        "requires_grad": grad,
        "subclass": arange(2).as_subclass(Subclass),
    }


def shared():
    weight = arange(3, 2)
    return collections.OrderedDict(embed=weight, head=weight.detach(), part=weight[1:])


def module_state():
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.fill_(i)
    return module.state_dict()


def objects():
    """What training scripts keep beside their weights."""
    return {
        "namespace": argparse.Namespace(lr=0.1),
        "numpy_array": numpy.arange(3),
        "numpy_scalar": numpy.float32(1.5),
        "numpy_state": numpy.random.RandomState(0).get_state()[0],
        "datetime": datetime.datetime(2024, 1, 2),
        "path": pathlib.PurePosixPath("/a/b"),
        "set": {1, 2},
        "frozenset": frozenset([3]),
        "bytes": b"\x00\xff",
        "bytearray": bytearray(b"ab"),
        "big": 2**70,
        "negative": -(2**31) - 1,
        "float": 0.1,
        "none": None,
        "counter": collections.Counter("aab"),
        "defaultdict": collections.defaultdict(list, a=[1]),
        "size": torch.Size([2, 3]),
        "dtype": torch.bfloat16,
        "device": torch.device("cuda", 1),
        "layout": torch.strided,
        "optimizer": torch.optim.SGD,
        "tensor": arange(2),
    }


def opaque():
    return {
        "quantized": torch.quantize_per_tensor(arange(2), 0.5, 0, torch.qint8),
        "sparse": torch.eye(2).to_sparse(),
        "meta": torch.zeros(2, device="meta"),
        "complex128": torch.zeros(2, dtype=torch.complex128),
        "plain": arange(2),
    }


def model():
    """The state dict that the writer must write in the same bytes."""
    weight = arange(2, 3)
    return collections.OrderedDict(
        [
            ("embed.weight", weight),
            ("layer.bias", torch.zeros(3, dtype=torch.bfloat16)),
            ("layer.scale", torch.zeros(5, dtype=torch.float8_e4m3fn)),
            ("layer.index", torch.tensor(300, dtype=torch.uint16)),
            ("layer.empty", torch.zeros(0, 4)),
            ("layer.wide", torch.zeros(300, dtype=torch.uint8)),
            ("head.weight", weight.detach()),
        ]
        + [(f"step.{i}", torch.tensor(i)) for i in range(12)]
        + [("größe.😀", torch.zeros((), dtype=torch.float16))]
    )


def describe(value, path=""):
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_quantized or value.is_meta or value.dtype == torch.complex128:
            return {}
        with torch.no_grad():
            plain = value.detach().as_subclass(torch.Tensor)
            if plain.is_neg():
                plain = torch._neg_view(plain)
            if plain.is_conj():
                plain = plain.conj()
            data = plain.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
        return {
            path: {
                "dtype": str(value.dtype).removeprefix("torch."),
                "shape": list(value.shape),
                "stride": list(value.stride()),
                "offset": value.storage_offset(),
                "storage": value.untyped_storage().nbytes(),
                "flip": "-".join([*["neg"] * value.is_neg(), *["conj"] * value.is_conj()]),
                "hex": data.hex(),
            }
        }
    if not isinstance(value, dict):
        return {}
    return {k: v for key, item in value.items() for k, v in describe(item, str(key)).items()}


legacy = {"_use_new_zipfile_serialization": False}
files = {
    "geometry.pt": (geometry, {}),
    "dtypes.pt": (dtypes, {}),
    "flips.pt": (flips, {}),
    "wrappers.pt": (wrappers, {}),
    "shared.pt": (shared, {}),
    "module.pt": (module_state, {}),
    "objects.pt": (objects, {}),
    "objects-protocol4.pt": (objects, {"pickle_protocol": 4}),
    "objects-protocol5.pt": (objects, {"pickle_protocol": 5}),
    "opaque.pt": (opaque, {}),
    "legacy.pt": (dtypes, legacy),
    "legacy-geometry.pt": (geometry, legacy),
    "legacy-protocol4.pt": (shared, {**legacy, "pickle_protocol": 4}),
    "model.bin": (model, {}),
}
expected = {}
for name, (make, options) in files.items():
    torch.save(make(), name, **options)
    # torch cannot load the float8 tensors that it writes to the legacy container.
    read = make() if name == "legacy.pt" else torch.load(name, weights_only=False)
    expected[name] = describe(read)
pathlib.Path("expected.json").write_text(json.dumps(expected))
