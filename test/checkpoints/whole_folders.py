# SPDX-License-Identifier: MIT
"""Folders of models that have more than a language model, for make_checkpoints.py."""
import json
import shutil

import safetensors.torch
import torch
import transformers


def save_whole_llama4(model, folder):
    """The same language model in one that reads pictures, too."""
    shutil.rmtree(folder, ignore_errors=True)
    vision = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, image_size=16,
                  patch_size=8)
    sizes = dict(vision_output_dim=16, projector_input_dim=16, projector_output_dim=16, pixel_shuffle_ratio=0.5)
    config = transformers.Llama4Config(text_config=model.config.to_dict(), vision_config=vision | sizes)
    whole = transformers.Llama4ForConditionalGeneration(config)
    whole.language_model.load_state_dict(model.state_dict())
    whole.save_pretrained(folder)


def save_whole_gemma3n(folder, text):
    """The same in one that reads pictures and hears, of which one tensor each will do."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    tensors = safetensors.torch.load_file(text / "model.safetensors")
    whole = {name.replace("model.", "model.language_model.", 1): weight for name, weight in tensors.items()}
    for part in ("audio_tower", "vision_tower", "embed_audio", "embed_vision"):
        whole[f"model.{part}.norm.weight"] = torch.ones(4)
    safetensors.torch.save_file(whole, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((text / "config.json").read_text())
    config = dict(model_type="gemma3n", architectures=["Gemma3nForConditionalGeneration"], text_config=config)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def save_whole_qwen3_5(folder, text):
    """The same as it is downloaded: experts of a layer are one tensor, and pictures and a guess of the token after next
    have some, of which one each will do."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    tensors = safetensors.torch.load_file(text / "model.safetensors")
    config = json.loads((text / "config.json").read_text())
    whole = {}
    for name, weight in tensors.items():
        if ".experts." not in name:
            whole[name.replace("model.", "model.language_model.", 1)] = weight
    for layer in range(config["num_hidden_layers"]):
        experts = f"layers.{layer}.mlp.experts"
        parts = {part: [tensors[f"model.{experts}.{i}.{part}_proj.weight"] for i in range(config["num_experts"])]
                 for part in ("gate", "up", "down")}
        both = [torch.cat(pair) for pair in zip(parts["gate"], parts["up"])]
        whole[f"model.language_model.{experts}.gate_up_proj"] = torch.stack(both)
        whole[f"model.language_model.{experts}.down_proj"] = torch.stack(parts["down"])
    whole |= {"model.visual.norm.weight": torch.ones(4), "mtp.norm.weight": torch.ones(4)}
    safetensors.torch.save_file(whole, folder / "model.safetensors", metadata={"format": "pt"})
    config["rope_parameters"] |= dict(mrope_interleaved=True, mrope_section=[1, 1, 0])
    config = dict(model_type="qwen3_5_moe", architectures=["Qwen3_5MoeForConditionalGeneration"], text_config=config)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
