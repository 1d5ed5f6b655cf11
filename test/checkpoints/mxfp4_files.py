# SPDX-License-Identifier: MIT
"""Experts as numbers of 4 bits, as gpt-oss has them, for make_checkpoints.py."""
import json

import safetensors.torch
import torch

FP4 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


def mxfp4(weight):
    """Codes of 4 bits (one a byte), scales as exponents plus 127, and what they stand for; blocks are of 32 inputs."""
    blocks = weight.unflatten(-1, (-1, 32))
    exponent = blocks.abs().amax(-1, keepdim=True).log2().floor() - 2
    scaled = blocks / exponent.exp2()
    codes = (scaled.abs()[..., None] - FP4).abs().argmin(-1)
    values = (FP4[codes] * scaled.sign() * exponent.exp2()).reshape(weight.shape)
    return (codes + 8 * (scaled < 0)).to(torch.uint8), (exponent[..., 0] + 127).to(torch.uint8), values


def round_experts(model):
    """Experts become numbers of MXFP4, as gpt-oss has them; returns codes and scales by the names of the weights."""
    packed = {}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
                codes, scales, values = mxfp4(weight.transpose(1, 2).contiguous())
                weight.copy_(values.transpose(1, 2))
                packed[name] = (codes, scales)
    return packed


def pack_folder(folder, packed):
    """Puts codes and scales in the place of experts' weights, two codes in a byte."""
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    for name, (codes, scales) in packed.items():
        del tensors[name]
        tensors[name + "_blocks"] = (codes[..., ::2] | codes[..., 1::2] << 4).contiguous()
        tensors[name + "_scales"] = scales
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    kept = ["model.embed_tokens", "lm_head", "model.layers.*.self_attn"]
    config["quantization_config"] = dict(quant_method="mxfp4", modules_to_not_convert=kept)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def gguf_blocks(codes, scales):
    """Blocks of GGUF: the scale, then codes half a block apart in each byte."""
    halves = codes[..., :16] | codes[..., 16:] << 4
    return torch.cat([scales[..., None], halves], -1).flatten(-2).contiguous().numpy()


def packed_parts(packed):
    """Codes and scales under the names that state_of gives the weights."""
    for name, (codes, scales) in packed.items():
        if name.endswith("gate_up_proj"):
            for i, part in enumerate(("gate_proj", "up_proj")):
                yield name.replace("gate_up_proj", part) + ".weight", (codes[:, i::2], scales[:, i::2])
        else:
            yield name + ".weight", (codes, scales)
