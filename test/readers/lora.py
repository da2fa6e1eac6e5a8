"""LoRA runs as peft makes them, and what peft makes of our output.

    lora.py make FOLDER          writes checkpoints of LoRA models, each with what peft saves and merges
    lora.py check CASES.json     compares converted checkpoints with that

Started by run.ts. A checkpoint is that of a run without ZeRO: the state dict of the live model in one model file. So the
names are peft's own, and nothing of them is written down here.
"""

import json
import os
import sys
import warnings
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["TQDM_DISABLE"] = "1"
warnings.filterwarnings("ignore")

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from peft.tuners.lora.layer import Embedding, LoraLayer
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

LLAMA = LlamaConfig(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=61, max_position_embeddings=32, tie_word_embeddings=False)
TIED = LlamaConfig.from_dict({**LLAMA.to_dict(), "tie_word_embeddings": True})
GPT2 = GPT2Config(n_embd=24, n_layer=2, n_head=4, vocab_size=53, n_positions=32, tie_word_embeddings=False)

# Unit roundoff of fp32.
U = 2.0**-24


class Pictures(nn.Module):
    """Convolutions, which transformers has few of."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.second = nn.Conv2d(8, 5, 1, bias=False)
        self.head = nn.Linear(5, 4)


def base(kind):
    torch.manual_seed(7)
    return Pictures() if kind == "pictures" else AutoModelForCausalLM.from_config({"llama": LLAMA, "tied": TIED, "gpt2": GPT2}[kind])


# Each run: the base model, and a configuration for each adapter.
RUNS = {
    "patterns": ("llama", {"default": dict(r=4, lora_alpha=6, target_modules=["q_proj", "v_proj", "down_proj"], rank_pattern={"down_proj": 9}, alpha_pattern={"layers.0.self_attn.q_proj": 5, "^model.layers.1.mlp.down_proj": 2})}),
    "rslora-embeddings": ("llama", {"default": dict(r=5, lora_alpha=7, use_rslora=True, target_modules=["embed_tokens", "lm_head", "o_proj"])}),
    "conv1d": ("gpt2", {"default": dict(r=3, lora_alpha=8, fan_in_fan_out=True, target_modules=["c_attn", "c_proj"])}),
    "bias-all": ("gpt2", {"default": dict(r=3, lora_alpha=8, fan_in_fan_out=True, bias="all", target_modules=["c_attn"])}),
    "bias-layers": ("gpt2", {"default": dict(r=3, lora_alpha=8, fan_in_fan_out=True, bias="lora_only", target_modules=["c_attn", "c_fc"])}),
    "saved-modules": ("llama", {"default": dict(r=2, lora_alpha=3, target_modules=["q_proj"], modules_to_save=["lm_head", "embed_tokens"])}),
    "untied": ("tied", {"default": dict(r=2, lora_alpha=3, target_modules=["q_proj"], modules_to_save=["lm_head"])}),
    "two-adapters": ("llama", {"default": dict(r=2, lora_alpha=3, target_modules=["q_proj"]), "policy": dict(r=3, lora_alpha=9, target_modules=["q_proj", "up_proj"], modules_to_save=["lm_head"])}),
    "convolutions": ("pictures", {"default": dict(r=3, lora_alpha=5, target_modules=["first", "second", "head"])}),
    "integers": ("llama", {"default": dict(r=4, lora_alpha=16, target_modules=["q_proj", "down_proj"])}),
    "dora": ("llama", {"default": dict(r=2, lora_alpha=3, use_dora=True, target_modules=["q_proj"])}),
    "lora-bias": ("gpt2", {"default": dict(r=2, lora_alpha=3, fan_in_fan_out=True, lora_bias=True, target_modules=["c_attn"])}),
    "tokens": ("llama", {"default": dict(r=2, lora_alpha=3, target_modules=["q_proj"], trainable_token_indices=[1, 5])}),
}


def live_model(name):
    """The model of a run after some training: every parameter has a value of its own."""
    kind, adapters = RUNS[name]
    first, *others = adapters
    model = get_peft_model(base(kind), LoraConfig(**adapters[first]), adapter_name=first)
    for other in others:
        model.add_adapter(other, LoraConfig(**adapters[other]))
    torch.manual_seed(11)
    with torch.no_grad():
        for parameter in model.parameters():
            if name == "integers":
                parameter.copy_(torch.randint(-4, 5, parameter.shape))
            else:
                parameter.copy_(torch.randn_like(parameter) * torch.exp(torch.randn_like(parameter)))
    return model


def exact_merge(model, adapter):
    """For each merged weight: its value in fp64, and how far fp32 may be from it, by the names of the base model.

    A sum of r products in fp32, in any order, fused or not, is within r * u of the sum of their magnitudes; the scale and
    the last addition round once more each. Terms of u squared are covered by one more u.
    """
    found = {}
    for name, layer in model.get_base_model().named_modules():
        embedding = isinstance(layer, Embedding)
        held = layer.lora_embedding_A if embedding else getattr(layer, "lora_A", {})
        if not isinstance(layer, LoraLayer) or adapter not in held:
            continue
        a = (layer.lora_embedding_A[adapter] if embedding else layer.lora_A[adapter].weight).detach().double()
        b = (layer.lora_embedding_B[adapter] if embedding else layer.lora_B[adapter].weight).detach().double()
        weight = layer.get_base_layer().weight.detach().double()
        turned = embedding or layer.fan_in_fan_out if hasattr(layer, "fan_in_fan_out") else False
        scale = float(torch.tensor(layer.scaling[adapter], dtype=torch.float32))
        product, size = [(m.T if turned else m).reshape(weight.shape) for m in (b.flatten(1) @ a.flatten(1), b.flatten(1).abs() @ a.flatten(1).abs())]
        merged = weight + scale * product
        found[f"{name}.weight"] = (merged, U * ((a.shape[0] + 2) * abs(scale) * size + merged.abs()))
    return found


def make(folder):
    for name in RUNS:
        model = live_model(name)
        checkpoint = folder / name / "checkpoint"
        (checkpoint / "global_step1").mkdir(parents=True)
        (checkpoint / "latest").write_text("global_step1")
        state = {"module": dict(model.state_dict()), "optimizer": None, "buffer_names": [], "param_shapes": None, "dp_world_size": 1, "mp_world_size": 1, "global_steps": 1, "ds_version": "0.19.6", "ds_config": {}}
        torch.save(state, checkpoint / "global_step1" / "mp_rank_00_model_states.pt")
        if hasattr(model.get_base_model(), "config"):
            model.get_base_model().config.save_pretrained(checkpoint)
        model.save_pretrained(folder / name / "saved")
        for adapter in RUNS[name][1]:
            below = "" if adapter == "default" else adapter
            (checkpoint / below).mkdir(exist_ok=True)
            text = (folder / name / "saved" / below / "adapter_config.json").read_text()
            (checkpoint / below / "adapter_config.json").write_text(text)


def check_adapter(case):
    """The file must be the one that save_pretrained writes, and from_pretrained must load it whole."""
    name, adapter, out = case["name"], case["adapter"], Path(case["out"])
    saved = Path(case["run"]) / "saved" / ("" if adapter == "default" else adapter)
    ours = load_file(out / "adapter_model.safetensors") if case["format"] == "safetensors" else torch.load(out / "adapter_model.bin", weights_only=True)
    theirs = load_file(saved / "adapter_model.safetensors")
    assert set(ours) == set(theirs), f"keys differ: {sorted(set(ours) ^ set(theirs))[:6]}"
    for key, tensor in theirs.items():
        assert torch.equal(ours[key], tensor), f"{key} differs"
    if case["format"] == "safetensors":
        assert (out / "adapter_model.safetensors").read_bytes() == (saved / "adapter_model.safetensors").read_bytes(), "the file differs"
    live = live_model(name)
    model = PeftModel.from_pretrained(base(RUNS[name][0]), out)
    expected = get_peft_model_state_dict(live, adapter_name=adapter)
    loaded = get_peft_model_state_dict(model)
    assert set(loaded) == set(expected), f"from_pretrained has other keys: {sorted(set(loaded) ^ set(expected))[:6]}"
    for key in expected:
        assert torch.equal(loaded[key], expected[key]), f"from_pretrained loads another {key}"


def compare_merged(ours, theirs, exact):
    """Bit for bit; for the names in `exact` within the bound that fp32 sums in any order keep, as peft's own are."""
    assert set(ours) == set(theirs), f"names differ: {sorted(set(ours) ^ set(theirs))[:6]}"
    for key, tensor in theirs.items():
        if key not in exact:
            assert torch.equal(ours[key], tensor), f"{key} differs"
            continue
        merged, bound = exact[key]
        assert ((tensor.double() - merged).abs() <= bound).all(), f"{key}: peft itself is beyond the bound"
        assert ((ours[key].double() - merged).abs() <= bound).all(), f"{key} is beyond the bound"


def check_merged(case):
    """The result of merge_and_unload. Small integers are exact in any order, so there the bits are the same, too."""
    name, adapter = case["name"], case["adapter"]
    ours = load_file(Path(case["out"]) / "model.safetensors")
    live = live_model(name)
    exact = exact_merge(live, adapter)
    live.set_adapter(adapter)
    theirs = live.merge_and_unload(adapter_names=[adapter]).state_dict()
    assert exact, "nothing was merged"
    compare_merged(ours, theirs, {} if name == "integers" else exact)
    if RUNS[name][0] == "pictures":
        return
    loaded = AutoModelForCausalLM.from_pretrained(case["out"]).state_dict()
    assert set(loaded) == set(ours), f"from_pretrained has other names: {sorted(set(loaded) ^ set(ours))[:6]}"
    for key, tensor in ours.items():
        assert torch.equal(loaded[key], tensor), f"from_pretrained loads another {key}"
    if name == "untied":
        assert not torch.equal(loaded["lm_head.weight"], loaded["model.embed_tokens.weight"]), "the head was tied again"


def check_fixture(case):
    """A checkpoint of DeepSpeed: its tensors, whose hashes were checked, loaded into the model that peft builds."""
    config = LoraConfig.from_pretrained(case["adapterOut"])
    described = LlamaConfig.from_dict(json.loads((Path(case["checkpoint"]) / "config.json").read_text()))
    live = get_peft_model(AutoModelForCausalLM.from_config(described), config)
    state = load_file(Path(case["modelOut"]) / "model.safetensors")
    missing, unexpected = live.load_state_dict(state, strict=False)
    assert not unexpected, f"peft does not know {unexpected[:3]}"
    assert case["mergedOut"] is None or not missing, f"the checkpoint has no {missing[:3]}"
    ours = load_file(Path(case["adapterOut"]) / "adapter_model.safetensors")
    expected = get_peft_model_state_dict(live)
    assert set(ours) == set(expected), "the adapter has other keys"
    for key in expected:
        assert torch.equal(ours[key], expected[key]), f"{key} differs"
    loaded = PeftModel.from_pretrained(AutoModelForCausalLM.from_config(described), case["adapterOut"])
    for key, tensor in get_peft_model_state_dict(loaded).items():
        assert torch.equal(tensor, expected[key]), f"from_pretrained loads another {key}"
    if case["mergedOut"] is None:
        return
    exact = exact_merge(live, "default")
    model = AutoModelForCausalLM.from_pretrained(case["mergedOut"])
    ours = model.state_dict()
    theirs = live.merge_and_unload().state_dict()
    assert len(exact) == 6, "other layers were merged"
    compare_merged(ours, theirs, exact)


CHECKS = {"adapter": check_adapter, "merged": check_merged, "fixture": check_fixture}


def check(cases):
    failed = 0
    for case in cases:
        try:
            CHECKS[case["kind"]](case)
        except Exception as error:
            failed += 1
            print(f'FAILED {case["name"]} {case["kind"]} {case.get("adapter", "")}: {type(error).__name__}: {error}')
    print(f"{len(cases) - failed} LoRA results passed, {failed} failed")
    sys.exit(1 if failed or not cases else 0)


if sys.argv[1] == "make":
    make(Path(sys.argv[2]))
else:
    check(json.loads(Path(sys.argv[2]).read_text()))
