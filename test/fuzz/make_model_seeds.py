#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the seeds of gguf_fuzz, llama2c_fuzz, huggingface_fuzz, adapter_fuzz, draft_heads_fuzz and about_fuzz:
language models of a few KB, LoRA adapters of them, heads that guess, and what converted ones say of themselves.

    test/fuzz/make_model_seeds.py

Needs numpy and gguf.
"""
import json
import pathlib
import struct
import typing

import gguf
import numpy as np

CORPUS = pathlib.Path(__file__).parent / "corpus"
WIDE, FEED, TOKENS, CONTEXT, HEADS = 32, 32, 5, 8, 2
# Shapes as torch has them.
LAYER = {
    "attn_norm": (WIDE,), "attn_q": (WIDE, WIDE), "attn_k": (WIDE // 2, WIDE), "attn_v": (WIDE // 2, WIDE),
    "attn_output": (WIDE, WIDE), "ffn_norm": (WIDE,), "ffn_gate": (FEED, WIDE), "ffn_up": (FEED, WIDE),
    "ffn_down": (WIDE, FEED),
}  # fmt: skip
HUB = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip


def write_gguf(name, family, kind, layer, more=lambda writer: None, feed=FEED):
    """`kind`: how matrices are stored. `layer` gives a shape, or a kind of blocks, which get any bytes, and a shape."""
    path = CORPUS / "gguf_fuzz" / name
    writer = gguf.GGUFWriter(path, family)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDE)
    writer.add_block_count(1)
    writer.add_feed_forward_length(feed)
    writer.add_head_count(HEADS)
    if family == "gpt2":
        writer.add_layer_norm_eps(1e-5)
    else:
        writer.add_head_count_kv(1)
        writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>", "a", "b"])
    writer.add_token_scores([0.0] * TOKENS)
    writer.add_token_types([2, 3, 3, 1, 1])
    writer.add_eos_token_id(2)
    writer.add_chat_template("{{ messages }}")
    more(writer)

    def add(tensor, shape):
        if len(shape) == 1:
            writer.add_tensor(tensor, np.ones(shape, dtype=np.float32))
        elif isinstance(shape[1], tuple):
            blocks, (rows, columns) = shape
            elements, size = gguf.GGML_QUANT_SIZES[blocks]
            data = np.random.default_rng(7).integers(0, 0x38, (rows, columns // elements * size), dtype=np.uint8)
            writer.add_tensor(tensor, data, raw_dtype=blocks)
        else:
            writer.add_tensor(tensor, gguf.quantize(np.ones(shape, dtype=np.float32), kind), raw_dtype=kind)

    add("token_embd.weight", (TOKENS, WIDE))
    add("output_norm.weight", (WIDE,))
    for stem, shape in layer.items():
        add(f"blk.0.{stem}" + ("" if stem.endswith(".bias") else ".weight"), shape)
    if family == "gpt2":
        add("output_norm.bias", (WIDE,))
        add("position_embd.weight", (CONTEXT, WIDE))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_seeds():
    kinds = gguf.GGMLQuantizationType
    write_gguf("llama_q4_1.gguf", "llama", kinds.Q4_1, LAYER)
    write_gguf("llama_q8_0.gguf", "llama", kinds.Q8_0, LAYER,
               lambda writer: writer.add_tensor("rope_freqs.weight", np.ones(8, dtype=np.float32)))

    def yarn(writer):
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(4.0)

    write_gguf("qwen3_q4_0.gguf", "qwen3", kinds.Q4_0, LAYER | {"attn_q_norm": (16,), "attn_k_norm": (16,)}, yarn)
    fused = {key: LAYER[key] for key in ("attn_norm", "attn_output", "ffn_norm", "ffn_down")}

    def long(writer):
        writer.add_rope_scaling_orig_ctx_len(4)
        for length in ("long", "short"):
            writer.add_tensor(f"rope_factors_{length}.weight", np.ones(8, dtype=np.float32))

    write_gguf("phi3_q5_0.gguf", "phi3", kinds.Q5_0, fused | {"attn_qkv": (2 * WIDE, WIDE), "ffn_up": (2 * FEED, WIDE)},
               long)
    gpt2 = fused | {"attn_qkv": (3 * WIDE, WIDE), "ffn_up": (FEED, WIDE), "attn_qkv.bias": (3 * WIDE,)}
    write_gguf("gpt2_q4_0.gguf", "gpt2", kinds.Q4_0, gpt2 | {"attn_norm.bias": (WIDE,), "ffn_norm.bias": (WIDE,)})
    gemma = LAYER | {"post_attention_norm": (WIDE,), "post_ffw_norm": (WIDE,)}
    write_gguf("gemma2_q4_1.gguf", "gemma2", kinds.Q4_1, gemma)
    for grid in (kinds.IQ1_S, kinds.IQ1_M, kinds.IQ2_XXS, kinds.IQ2_XS, kinds.IQ2_S, kinds.IQ3_XXS, kinds.IQ3_S):
        wide = LAYER | {"ffn_gate": (256, WIDE), "ffn_up": (256, WIDE), "ffn_down": (grid, (WIDE, 256))}
        write_gguf(f"llama_{grid.name.lower()}.gguf", "llama", kinds.Q4_1, wide, feed=256)


def llama2c_seeds():
    folder = CORPUS / "llama2c_fuzz"
    dim, hidden, heads, kv_heads, vocabulary, context, group = 8, 4, 2, 1, 3, 4, 4
    keys = dim // heads * kv_heads
    sizes = [dim, hidden, 1, heads, kv_heads, vocabulary, context]
    matrices = [dim * dim, keys * dim, keys * dim, dim * dim] + 3 * [dim * hidden]
    floats = lambda count: np.ones(count, dtype=np.float32).tobytes()
    quantized = lambda count: np.ones(count, dtype=np.int8).tobytes() + floats(count // group)
    legacy = vocabulary * dim + 3 * dim + sum(matrices) + context * dim // heads
    (folder / "v0.bin").write_bytes(struct.pack("<7i", *sizes) + floats(legacy))
    header = lambda version: struct.pack("<Ii7iBi", 0x616B3432, version, *sizes, 1,
                                         group if version == 2 else 0).ljust(256, b"\0")
    (folder / "v1.bin").write_bytes(header(1) + floats(3 * dim + vocabulary * dim + sum(matrices)))
    products = b"".join(quantized(count) for count in [vocabulary * dim] + matrices)
    (folder / "v2.bin").write_bytes(header(2) + floats(3 * dim) + products)


class Stored(typing.NamedTuple):
    """A tensor of another dtype than its neighbours."""

    dtype: str
    shape: tuple
    content: bytes


def write_hub(name, config, tensors, dtype="BF16", bytes_each=2, target="huggingface_fuzz"):
    header, data = {}, b""
    for tensor, shape in tensors.items():
        if isinstance(shape, Stored):
            kind, shape, content = shape.dtype, shape.shape, shape.content
        else:
            kind, content = dtype, b"\1" * (int(np.prod(shape)) * bytes_each)
        header[tensor] = dict(dtype=kind, shape=list(shape), data_offsets=[len(data), len(data) + len(content)])
        data += content
    text = json.dumps(header).encode()
    (CORPUS / target / name).write_bytes(json.dumps(config).encode() + b"\n" + struct.pack("<Q", len(text)) + text
                                         + data)


def huggingface_seeds():
    common = dict(vocab_size=TOKENS, hidden_size=8, intermediate_size=4, num_hidden_layers=1, num_attention_heads=2,
                  num_key_value_heads=1, max_position_embeddings=8)
    shapes = {"attn_norm": (8,), "ffn_norm": (8,), "attn_q": (8, 8), "attn_k": (4, 8), "attn_v": (4, 8),
              "attn_output": (8, 8), "ffn_gate": (4, 8), "ffn_up": (4, 8), "ffn_down": (8, 4)}
    llama = {"model.embed_tokens.weight": (TOKENS, 8), "model.norm.weight": (8,), "lm_head.weight": (TOKENS, 8)}
    llama |= {f"model.layers.0.{HUB[key]}.weight": shape for key, shape in shapes.items()}
    scaling = dict(rope_type="llama3", factor=2.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=4)
    write_hub("llama", dict(model_type="llama", rope_scaling=scaling, **common), llama)
    write_hub("gemma", dict(model_type="gemma", head_dim=4, **common), llama, "F32", 4)
    parameters = dict(rope_type="longrope", long_factor=[2, 3], short_factor=[1, 1])
    merged = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
    phi3 = {key: shape for key, shape in llama.items() if not any(part in key for part in merged)}
    phi3 |= {"model.layers.0.self_attn.qkv_proj.weight": (16, 8), "model.layers.0.mlp.gate_up_proj.weight": (8, 8)}
    write_hub("phi3", dict(model_type="phi3", rope_parameters=parameters, original_max_position_embeddings=4, **common),
              phi3, "F16")
    gpt2 = {"wte.weight": (TOKENS, 8), "wpe.weight": (4, 8), "ln_f.weight": (8,), "ln_f.bias": (8,)}
    for stem, shape in {"attn.c_attn": (8, 24), "attn.c_proj": (8, 8), "mlp.c_fc": (8, 4),
                        "mlp.c_proj": (4, 8)}.items():
        gpt2 |= {f"h.0.{stem}.weight": shape, f"h.0.{stem}.bias": shape[1:]}
    for stem in ("ln_1", "ln_2"):
        gpt2 |= {f"h.0.{stem}.weight": (8,), f"h.0.{stem}.bias": (8,)}
    write_hub("gpt2", dict(model_type="gpt2", vocab_size=TOKENS, n_embd=8, n_layer=1, n_head=2, n_positions=4,
                           n_inner=4), gpt2)


def quantized_seeds():
    """One layer whose matrices lie in parts: as compressed-tensors, FP8 and MXFP4 store them."""
    sizes = dict(model_type="llama", vocab_size=TOKENS, hidden_size=32, intermediate_size=32, num_hidden_layers=1,
                 num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=8)  # fmt: skip
    words = lambda rows, columns: Stored("I32", (rows, columns), b"\x21" * (4 * rows * columns))
    floats = lambda *shape: Stored("F32", shape, np.full(shape, 0.5, np.float32).tobytes())
    bytes_of = lambda dtype, *shape: Stored(dtype, shape, b"\x31" * int(np.prod(shape)))

    def write(name, config, parts):
        tensors = {"model.embed_tokens.weight": (TOKENS, 32), "model.norm.weight": (32,),
                   "lm_head.weight": (TOKENS, 32)}
        for key, shape in LAYER.items():
            stem = f"model.layers.0.{HUB[key]}."
            values = {"weight": shape} if len(shape) == 1 else parts(*shape)
            tensors |= {stem + part: value for part, value in values.items()}
        write_hub(name, dict(quantization_config=config, **sizes), tensors)

    packed = dict(quant_method="compressed-tensors", format="pack-quantized")
    shape_of = lambda rows, columns: Stored("I64", (2,), struct.pack("<qq", rows, columns))
    write("ct_int4", packed, lambda r, c: dict(weight_packed=words(r, c // 8), weight_scale=floats(r, c // 16),
                                               weight_shape=shape_of(r, c), weight_zero_point=words(r // 8, c // 16)))
    naive = dict(quant_method="compressed-tensors", format="naive-quantized")
    write("ct_int8", naive, lambda r, c: dict(weight=bytes_of("I8", r, c), weight_scale=floats(r, 1)))
    blocks = dict(quant_method="fp8", weight_block_size=[16, 16])
    write("fp8", blocks, lambda r, c: dict(weight=bytes_of("F8_E4M3", r, c),
                                           weight_scale_inv=floats(-(-r // 16), c // 16)))
    write("mxfp4", dict(quant_method="mxfp4"), lambda r, c: dict(weight_blocks=bytes_of("U8", r, c // 32, 16),
                                                                 weight_scales=bytes_of("U8", r, c // 32)))
    fp4 = dict(quant_method="compressed-tensors", format="nvfp4-pack-quantized")
    write("nvfp4", fp4, lambda r, c: dict(weight_packed=bytes_of("U8", r, c // 2),
                                          weight_scale=bytes_of("F8_E4M3", r, c // 16),
                                          weight_global_scale=floats(1)))  # fmt: skip


def adapter_seeds():
    rank, width = 2, 4
    tensors = {}
    for stem in ("self_attn.q_proj", "mlp.down_proj"):
        prefix = f"base_model.model.model.layers.0.{stem}.lora_"
        tensors |= {prefix + "A.weight": (rank, width), prefix + "B.weight": (width, rank)}
    config = dict(peft_type="LORA", r=rank, lora_alpha=4, bias="none", use_rslora=False, rank_pattern={})
    write_hub("peft_bf16", config, tensors, target="adapter_fuzz")
    write_hub("peft_f32", config | dict(use_rslora=True), tensors, "F32", 4, "adapter_fuzz")
    writer = gguf.GGUFWriter(CORPUS / "adapter_fuzz" / "lora.gguf", "llama")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 4.0)
    for stem in ("attn_q", "ffn_down"):
        writer.add_tensor(f"blk.0.{stem}.weight.lora_a", np.ones((rank, width), dtype=np.float32))
        writer.add_tensor(f"blk.0.{stem}.weight.lora_b", np.ones((width, rank), dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def draft_heads_seeds():
    heads, width = 2, 4
    tensors = {}
    for i in range(heads):
        tensors |= {f"{i}.0.linear.weight": (width, width), f"{i}.0.linear.bias": (width,), f"{i}.1.weight": (6, width)}
    config = dict(medusa_num_heads=heads, medusa_num_layers=1, base_model_name_or_path="model")
    write_hub("heads_bf16", config, tensors, target="draft_heads_fuzz")
    write_hub("heads_f32", config, tensors, "F32", 4, "draft_heads_fuzz")


def about_seeds():
    """Of the model that about_fuzz runs, test/checkpoints/llama.gguf, with a tokenizer of each kind."""
    folder = CORPUS / "about_fuzz"
    config = dict(family="llama", vocabulary=40, hidden=32, layers=2, heads=4, kv_heads=2, head_dim=8, intermediate=24,
                  context=64)
    text = "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    templates = [dict(name="default", text=text)]
    about = dict(version=1, config=config, templates=templates, end_tokens=[2])

    def write(name, tokenizer, data=b""):
        text = json.dumps(about | {"tokenizer": dict(config="", vocabulary_size=40) | tokenizer})
        (folder / name).write_bytes(text.encode() + b"\n" + data)

    tokens = ["<unk>", "<s>", "</s>"] + [chr(ord("a") + i) for i in range(26)]
    tokens += ["▁", "he", "ll", "lo", "▁h", "w", "o", "rld", "1", "2", "12"]
    spec = dict(kind="llama", pre="default", architecture="llama", tokens=tokens, scores=[-float(i) for i in range(40)],
                types=[2, 3, 3] + 37 * [1], merges=[], bos=1, eos=2, unk=0, add_bos=True, add_space_prefix=True)
    write("vocabulary", dict(kind="vocabulary", vocabulary=spec))
    bytes_spec = spec | dict(kind="gpt2", pre="smollm", merges=["h e", "l l"],
                             tokens=[token.replace("▁", "Ġ") for token in tokens])
    write("bytes", dict(kind="vocabulary", vocabulary=bytes_spec))
    write("none", dict(kind="none"))
    pieces = dict(model=dict(type="WordLevel", vocab=dict(hello=0, world=1), unk_token="hello"),
                  pre_tokenizer=dict(type="Whitespace"))
    write("json", dict(kind="json"), json.dumps(pieces).encode())
    llama2c = struct.pack("<i", 3) + b"".join(struct.pack("<fi", -1.0 * i, 1) + bytes([97 + i]) for i in range(40))
    write("llama2c", dict(kind="llama2c"), llama2c)
    sentencepiece = (CORPUS / "tokenizer_fuzz" / "sentencepiece_char.model").read_bytes()
    write("sentencepiece", dict(kind="sentencepiece"), sentencepiece)


def main():
    for target in ("gguf_fuzz", "llama2c_fuzz", "huggingface_fuzz", "adapter_fuzz", "draft_heads_fuzz", "about_fuzz"):
        (CORPUS / target).mkdir(parents=True, exist_ok=True)
    gguf_seeds()
    llama2c_seeds()
    huggingface_seeds()
    quantized_seeds()
    adapter_seeds()
    draft_heads_seeds()
    about_seeds()


if __name__ == "__main__":
    main()
