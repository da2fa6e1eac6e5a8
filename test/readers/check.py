"""Reads converted checkpoints with the real libraries and compares every tensor with its expected hash.

    check.py CASES.json

Started by run.ts, which converts the checkpoints and writes CASES.json.
"""

import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["TQDM_DISABLE"] = "1"

import torch
from huggingface_hub import save_torch_state_dict, split_torch_state_dict_into_shards
from safetensors.torch import load_file

TORCH_DTYPE = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}

# Configurations that an engine saved name no class; these are the ones that were trained.
MODEL_CLASSES = {
    "bert": "BertForMaskedLM",
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "t5": "T5ForConditionalGeneration",
}


def sha256(tensor):
    flat = tensor.detach().contiguous().reshape(-1)
    return hashlib.sha256(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"").hexdigest()


def compare(what, state, expected, dtype, names):
    assert set(state) == set(names), f"{what}: names differ: {sorted(set(state) ^ set(names))[:5]}"
    for name in names:
        owner = expected["aliases"].get(name, name)
        entry = expected["tensors"][owner]
        tensor = state[name]
        assert list(tensor.shape) == entry["shape"], f"{what}: {name} has shape {list(tensor.shape)}"
        if tensor.is_floating_point():
            assert tensor.dtype == TORCH_DTYPE[dtype], f"{what}: {name} is {tensor.dtype}"
        assert sha256(tensor) == entry["sha256"][dtype], f"{what}: {name} has other bytes"


def load_state(case, expected):
    """The state dict as the format's own library reads it, and the names that it must hold."""
    out = Path(case["out"])
    names = list(expected["tensors"])
    if case["format"] == "bin":
        names += list(expected["aliases"])
    stem, extension = ("model", ".safetensors") if case["format"] == "safetensors" else ("pytorch_model", ".bin")
    index = out / f"{stem}{extension}.index.json"
    if index.exists():
        files = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    else:
        files = [f"{stem}{extension}"]
    on_disk = sorted(path.name for path in out.iterdir() if path.name.startswith(stem) and path.name.endswith(extension))
    assert on_disk == files, f"{out}: {on_disk} on disk, {files} in the index"
    state = {}
    for file in files:
        part = load_file(out / file) if case["format"] == "safetensors" else torch.load(out / file, weights_only=True)
        assert not set(part) & set(state), f"{out}: a tensor is in two files"
        state.update(part)
    return state, names, index


def check_ties(what, state, expected):
    for alias, owner in expected["aliases"].items():
        same = state[alias].untyped_storage().data_ptr() == state[owner].untyped_storage().data_ptr()
        assert same, f"{what}: {alias} does not share the storage of {owner}"


def check_split(what, case, state, expected, index):
    """The files and the index must be the ones that huggingface_hub writes for the same state dict."""
    if not index.exists():
        return 0
    text = index.read_text()
    ours = json.loads(text)
    # huggingface_hub splits in the order of the state dict, which for us is the order of the weight map.
    aliases = expected["aliases"] if case["format"] == "bin" else {}
    ordered = {name: state[name] for name in ours["weight_map"]}
    size = int(float(case["maxShardSize"][:-2]) * 1000)
    pattern = "model{suffix}.safetensors" if case["format"] == "safetensors" else "pytorch_model{suffix}.bin"
    owners = {name: tensor for name, tensor in ordered.items() if name not in aliases}
    # Tied names are put behind the other names: the split visits owners first, as in a model's own state dict.
    split = split_torch_state_dict_into_shards({**owners, **{name: ordered[name] for name in aliases}}, max_shard_size=size, filename_pattern=pattern)
    assert split.is_sharded, f"{what}: huggingface_hub would write one file"
    assert split.tensor_to_filename == ours["weight_map"], f"{what}: the weight map differs"
    assert split.metadata["total_size"] == ours["metadata"]["total_size"], f"{what}: the total size differs"
    if case["format"] == "safetensors":
        with tempfile.TemporaryDirectory() as folder:
            ties = {name: owner for name, owner in ours["metadata"].items() if name != "total_size"}
            assert ties == expected["aliases"], f"{what}: the index records other tied names"
            save_torch_state_dict(owners, folder, max_shard_size=size, metadata=ties)
            theirs = Path(folder)
            for path in theirs.iterdir():
                assert path.read_bytes() == (index.parent / path.name).read_bytes(), f"{what}: {path.name} differs"
    return 1


def check_pretrained(what, case, expected):
    """from_pretrained on the folder, where the checkpoint has a configuration that names a model of transformers."""
    config = Path(case["out"]) / "config.json"
    if not config.exists() or "lora" in case["name"]:
        return 0
    import transformers

    described = json.loads(config.read_text())
    model_class = getattr(transformers, described.get("architectures", [MODEL_CLASSES.get(described["model_type"])])[0])
    assert described.get("dtype", described.get("torch_dtype")) == str(TORCH_DTYPE[case["dtype"]])[6:], f"{what}: dtype in config.json"
    safe = case["format"] == "safetensors"
    model, info = model_class.from_pretrained(case["out"], output_loading_info=True, use_safetensors=safe)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], f"{what}: {info}"
    state = model.state_dict()
    for name in state:
        if name not in expected["tensors"] and name not in expected["aliases"]:
            raise AssertionError(f"{what}: the model has {name}, the checkpoint has not")
    # T5 widens its `wo` weights to fp32 when it loads fp16, which loses nothing: narrow them back to compare.
    widened = set(model._keep_in_fp32_modules or [])
    for name in state:
        if case["dtype"] == "fp16" and widened & set(name.split(".")):
            state[name] = state[name].to(torch.float16)
    compare(what, state, expected, case["dtype"], list(state))
    return 1


def main():
    started = time.time()
    job = json.loads(Path(sys.argv[1]).read_text())
    counts = {"files": 0, "splits": 0, "models": 0}
    failed = 0
    for case in job["cases"]:
        what = f'{case["name"]} {case["dtype"]} {case["format"]} {case.get("maxShardSize", "one file")}'
        expected = json.loads((Path(job["fixtures"]) / case["name"] / "expected.json").read_text())
        try:
            state, names, index = load_state(case, expected)
            compare(what, state, expected, case["dtype"], names)
            if case["format"] == "bin":
                check_ties(what, state, expected)
            counts["files"] += 1
            counts["splits"] += check_split(what, case, state, expected, index)
            counts["models"] += check_pretrained(what, case, expected)
        except Exception as error:
            failed += 1
            print(f"FAILED {what}: {type(error).__name__}: {error}")
    print(f'{counts["files"]} state dicts, {counts["splits"]} splits, {counts["models"]} models read in {time.time() - started:.0f} s')
    assert counts["splits"] > 0 and counts["models"] > 0, "nothing was compared"
    print(f'{len(job["cases"]) - failed} passed, {failed} failed')
    sys.exit(1 if failed else 0)


main()
