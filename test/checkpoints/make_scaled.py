#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes test/checkpoints/scaled/: a tiny llama as compressed-tensors, FP8 and MXFP4 folders store it, each beside the
same numbers as plain f32, and tokens.json with what transformers answers with these.

    test/checkpoints/make_scaled.py        # needs torch, transformers, compressed-tensors and safetensors

Codes and numbers of compressed-tensors are those of the package itself, those of MXFP4 blocks of transformers; FP8 is
torch's float8_e4m3fn times its scale.
"""
import json
import pathlib
import shutil

import torch
from compressed_tensors.compressors.base import BaseCompressor
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32, unpack_from_int32
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

FOLDER = pathlib.Path(__file__).parent / "scaled"
PROMPT = [3, 17, 9, 5, 5, 21, 11, 0, 22, 13, 8, 14]
ANSWER = 16
BLOCK = [24, 20]  # ends of the matrices cut blocks
SIZES = dict(vocab_size=24, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
             num_key_value_heads=2, head_dim=8, max_position_embeddings=64, rms_norm_eps=1e-5,
             tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, initializer_range=0.3)  # fmt: skip


def qparams(weight, args):
    """Scales and zero points of all groups, from their smallest and largest weights."""
    if args.strategy in ("group", "tensor_group"):
        parts = weight.unflatten(-1, (-1, args.group_size))
        low, high = parts.amin(-1), parts.amax(-1)
    elif args.strategy == "channel":
        low, high = weight.amin(-1, keepdim=True), weight.amax(-1, keepdim=True)
    else:
        low, high = weight.amin().reshape(1), weight.amax().reshape(1)
    whole = generate_gparam(low.amin(), high.amax()) if args.strategy == "tensor_group" else None
    scale, zero = calculate_qparams(low, high, args, global_scale=whole)
    return scale, zero, whole


def compressed(fmt, **how):
    args = QuantizationArgs(**how)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    compressor = BaseCompressor.get_value_from_registry(fmt)

    def pack(weight):
        scale, zero, whole = qparams(weight, args)
        state = dict(weight=weight, weight_scale=scale.to(torch.float32 if whole is not None else scale.dtype))
        if not args.symmetric:
            state["weight_zero_point"] = zero
        if whole is not None:
            state["weight_global_scale"] = whole.reshape(1)
        parts = compressor.compress(state, scheme)
        if whole is not None:  # the package would round to bf16
            scale = parts["weight_scale"].to(torch.float32) / whole
            codes = unpack_fp4_from_uint8(parts["weight_packed"], *weight.shape, dtype=torch.float32)
            return parts, codes * scale.repeat_interleave(args.group_size, 1)
        return parts, compressor.decompress(parts, scheme)["weight"].to(torch.float32)

    weights = json.loads(args.model_dump_json(exclude_none=True))
    config = dict(quant_method="compressed-tensors", format=fmt, quantization_status="compressed", ignore=["lm_head"],
                  config_groups=dict(group_0=dict(targets=["Linear"], weights=weights)))  # fmt: skip
    return config, pack


def act_order():
    """As older versions did it, groups in the order of activations: weight_g_idx has the group of each column."""
    config, plain_pack = compressed("pack-quantized", num_bits=4, symmetric=True, strategy="group", group_size=16)
    config["config_groups"]["group_0"]["weights"]["actorder"] = "group"
    random = torch.Generator().manual_seed(3)

    def pack(weight):
        order = torch.randperm(weight.shape[1], generator=random)
        parts, values = plain_pack(weight[:, order].contiguous())
        back = torch.argsort(order)
        values = values[:, back].contiguous()
        # Codes lie in the order of the columns, scales in that of the groups.
        codes = unpack_from_int32(parts["weight_packed"], 4, weight.shape)[:, back].contiguous()
        parts["weight_packed"] = pack_to_int32(codes, 4)
        parts["weight_g_idx"] = (back // 16).to(torch.int32)
        return parts, values

    return config, pack


def fp8(block):
    config = dict(quant_method="fp8", fmt="e4m3", activation_scheme="dynamic")
    if block:
        config["weight_block_size"] = block

    def pack(weight):
        rows, columns = weight.shape
        b = block or [rows, columns]
        scale = torch.zeros(-(-rows // b[0]), -(-columns // b[1]))
        for i in range(scale.shape[0]):
            for j in range(scale.shape[1]):
                scale[i, j] = weight[i * b[0] : (i + 1) * b[0], j * b[1] : (j + 1) * b[1]].abs().max() / 448
        spread = scale.repeat_interleave(b[0], 0).repeat_interleave(b[1], 1)[:rows, :columns]
        codes = (weight / spread).to(torch.float8_e4m3fn)
        parts = dict(weight=codes)
        if block:
            parts["weight_scale_inv"] = scale
        else:
            parts |= dict(weight_scale=scale.reshape(()), input_scale=torch.tensor(0.5))
        return parts, codes.to(torch.float32) * spread

    return config, pack


def mxfp4():
    _, packed = compressed("mxfp4-pack-quantized", num_bits=4, type="float", symmetric=True, strategy="group",
                           group_size=32, scale_dtype="torch.uint8", zp_dtype="torch.uint8")  # fmt: skip

    def pack(weight):
        parts, _ = packed(weight)
        blocks = parts["weight_packed"].unflatten(-1, (-1, 16))
        scales = parts["weight_scale"].view(torch.uint8)
        values = convert_moe_packed_tensors(blocks[None], scales[None], dtype=torch.float32)[0].T.contiguous()
        return dict(weight_blocks=blocks.contiguous(), weight_scales=scales), values

    return dict(quant_method="mxfp4", modules_to_not_convert=["lm_head"]), pack


FORMATS = {
    "ct_int4": lambda: compressed("pack-quantized", num_bits=4, symmetric=True, strategy="group", group_size=16),
    "ct_int4_zeros": lambda: compressed("pack-quantized", num_bits=4, symmetric=False, strategy="group", group_size=16),
    "ct_int4_act_order": act_order,
    "ct_int8_words": lambda: compressed("pack-quantized", num_bits=8, symmetric=True, strategy="channel"),
    "ct_int8": lambda: compressed("int-quantized", num_bits=8, symmetric=True, strategy="channel"),
    "ct_int8_zeros": lambda: compressed("naive-quantized", num_bits=8, symmetric=False, strategy="tensor"),
    "ct_fp8": lambda: compressed("float-quantized", num_bits=8, type="float", symmetric=True, strategy="channel"),
    "ct_nvfp4": lambda: compressed("nvfp4-pack-quantized", num_bits=4, type="float", symmetric=True,
                                   strategy="tensor_group", group_size=16, scale_dtype="torch.float8_e4m3fn",
                                   zp_dtype="torch.float8_e4m3fn"),
    "ct_mxfp4": lambda: compressed("mxfp4-pack-quantized", num_bits=4, type="float", symmetric=True, strategy="group",
                                   group_size=32, scale_dtype="torch.uint8", zp_dtype="torch.uint8"),
    "fp8_blocks": lambda: fp8(BLOCK),
    "fp8_tensor": lambda: fp8(None),
    "mxfp4": mxfp4,
}  # fmt: skip


def answer(weights):
    model = LlamaForCausalLM(LlamaConfig(**SIZES)).float().eval()
    model.load_state_dict(weights)
    tokens = list(PROMPT)
    with torch.no_grad():
        for _ in range(ANSWER):
            tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
    return tokens[len(PROMPT) :]


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    torch.manual_seed(5)
    source = {key: value.detach().clone() for key, value in LlamaForCausalLM(LlamaConfig(**SIZES)).state_dict().items()}
    answers = {}
    for name, make in FORMATS.items():
        config, pack = make()
        packed, plain = {}, {}
        for key, weight in source.items():
            plain[key] = weight
            if weight.ndim != 2 or "layers." not in key:
                packed[key] = weight
                continue
            parts, values = pack(weight)
            plain[key] = values.contiguous()
            packed |= {key.removesuffix("weight") + part: value.contiguous() for part, value in parts.items()}
        answers[name] = answer(plain)
        text = dict(model_type="llama", architectures=["LlamaForCausalLM"], hidden_act="silu", **SIZES)
        for folder, tensors in ((name, packed), (name + "_plain", plain)):
            (FOLDER / folder).mkdir(parents=True)
            save_file(tensors, FOLDER / folder / "model.safetensors")
            if tensors is packed:
                text["quantization_config"] = config
            else:
                text.pop("quantization_config")
            (FOLDER / folder / "config.json").write_text(json.dumps(text, indent=1) + "\n")
    (FOLDER / "tokens.json").write_text(json.dumps(dict(prompt=PROMPT, answers=answers)) + "\n")


if __name__ == "__main__":
    main()
