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
