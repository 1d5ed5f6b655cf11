#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes test/checkpoints/packed/: the tiny llama in the layouts of GPTQ and AWQ, and for each the same numbers as
plain f32, which transformers would multiply with (scale * (code - zero)).

    test/checkpoints/make_packed.py        # needs numpy

Layouts, as the public packages write them: GPTQ packs eight codes of inputs into an int32 (inputs / 8, outputs), its
zero points along the outputs and less by one; with act-order g_idx names the group of each input. AWQ packs eight
outputs, in the order 0 2 4 6 1 3 5 7.
"""
import json
import pathlib
import shutil
import struct

import numpy as np

HERE = pathlib.Path(__file__).parent
GROUP = 8
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]
NAMES = {"F32": "<f4", "F16": "<f2", "I32": "<i4"}


def read(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = data[8 + size + begin : 8 + size + end]
        if entry["dtype"] == "BF16":
            values = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(raw, NAMES[entry["dtype"]]).astype(np.float32)
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def write(path, tensors):
    header, blob = {}, b""
    for name, values in tensors.items():
        dtype = {"f4": "F32", "f2": "F16", "i4": "I32"}[values.dtype.str[1:]]
        raw = np.ascontiguousarray(values).tobytes()
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [len(blob), len(blob) + len(raw)]}
        blob += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + blob)


def pack(codes, bits=4):
    """Along the first axis: 32 / bits of them in an int32, the first lowest."""
    per = 32 // bits
    words = np.zeros((codes.shape[0] // per, *codes.shape[1:]), np.uint32)
    for i in range(per):
        words |= codes[i::per].astype(np.uint32) << np.uint32(bits * i)
    return words.view(np.int32)


def quantize(weight, groups, bits, symmetric):
    """Codes (inputs, outputs), scales and zeros (groups, outputs) of a (outputs, inputs) weight."""
    w = weight.T
    codes = np.zeros(w.shape, np.int64)
    scales, zeros = [], []
    most = 2**bits - 1
    for g in range(groups.max() + 1):
        part = w[groups == g]
        if symmetric:
            scale = np.maximum(np.abs(part).max(0), 1e-6) / (2 ** (bits - 1) - 1)
            zero = np.full(part.shape[1], 2 ** (bits - 1))
        else:
            low, high = np.minimum(part.min(0), 0), np.maximum(part.max(0), 0)
            scale = np.maximum(high - low, 1e-6) / most
            zero = np.clip(np.round(-low / scale), 1, most)
        scale = scale.astype(np.float16)
        codes[groups == g] = np.clip(np.round(part / scale.astype(np.float32)) + zero, 0, most)
        scales.append(scale)
        zeros.append(zero)
    return codes, np.array(scales, np.float16), np.array(zeros, np.int64)


def interleaved(x):
    return x.reshape(x.shape[0], -1, 8)[:, :, AWQ_ORDER].reshape(x.shape)


def make(name, method, act_order=False, symmetric=False, bits=4):
    source = HERE / "llama"
    packed, plain = {}, {}
    random = np.random.default_rng(7)
    for key, weight in read(source / "model.safetensors").items():
        if weight.ndim != 2 or "layers." not in key:
            packed[key] = plain[key] = weight.astype(np.float32)
            continue
        stem = key.removesuffix(".weight")
        inputs = weight.shape[1]
        groups = np.arange(inputs) // GROUP
        if act_order:
            groups = groups[random.permutation(inputs)]
        codes, scales, zeros = quantize(weight, groups, bits, symmetric)
        values = (codes - zeros[groups]).astype(np.float32) * scales[groups].astype(np.float32)
        plain[key] = np.ascontiguousarray(values.T)
        if method == "gptq":
            packed[stem + ".qweight"] = pack(codes, bits)
            packed[stem + ".qzeros"] = pack(zeros.T - 1, bits).T
            packed[stem + ".g_idx"] = groups.astype(np.int32)
        else:
            packed[stem + ".qweight"] = pack(interleaved(codes).T).T
            packed[stem + ".qzeros"] = pack(interleaved(zeros).T).T
        packed[stem + ".scales"] = scales
    config = json.loads((source / "config.json").read_text())
    for folder, tensors in ((name, packed), (name + "_plain", plain)):
        to = HERE / "packed" / folder
        to.mkdir(parents=True, exist_ok=True)
        write(to / "model.safetensors", tensors)
        if tensors is packed:
            config["quantization_config"] = {"quant_method": method, "bits": bits, "group_size": GROUP,
                                             "desc_act": act_order, "sym": symmetric}
            if method == "awq":
                config["quantization_config"].update(version="gemm", zero_point=True)
        else:
            config.pop("quantization_config", None)
        (to / "config.json").write_text(json.dumps(config, indent=1) + "\n")


if __name__ == "__main__":
    shutil.rmtree(HERE / "packed", ignore_errors=True)
    make("gptq", "gptq")
    make("gptq_symmetric", "gptq", symmetric=True)
    make("gptq_act_order", "gptq", act_order=True)
    make("gptq_8_bits", "gptq", bits=8)
    make("awq", "awq")
