#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whisper as torch modules that pnnx can write: keys and values of attention are inputs and outputs.

Not a program: tools/export-model.py and test/cli/make_demo_nets.py import it.
"""
import json
import struct

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

CONTAINER = ["<f4", "<i1", "<i2", "<i4", "<f2"]  # the kinds of arrays in CTranslate2's container


class Container:
    """model.bin as CTranslate2 writes it: names with arrays."""

    def __init__(self, path):
        self.data, self.offset = path.read_bytes(), 0
        version, name = self.take("I"), self.text()
        self.take("I")  # the revision of the model's kind
        if version != 6 or name != "WhisperSpec":
            raise SystemExit(f"{path} is '{name}' of version {version}: WhisperSpec of version 6 is read")
        self.arrays = dict(self.array() for _ in range(self.take("I")))

    def take(self, kind):
        (value,) = struct.unpack_from("<" + kind, self.data, self.offset)
        self.offset += struct.calcsize("<" + kind)
        return value

    def text(self):
        length = self.take("H")
        self.offset += length
        return self.data[self.offset - length : self.offset - 1].decode()

    def array(self):
        name = self.text()
        shape = [self.take("I") for _ in range(self.take("B"))]
        kind = np.dtype(CONTAINER[self.take("B")])
        count = self.take("I") // kind.itemsize
        values = np.frombuffer(self.data, kind, count, self.offset).reshape(shape)
        self.offset += values.nbytes
        return name, values


# Parts of names of the container, and of transformers' names.
PARTS = {
    "self_attention/linear_0": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "self_attention/linear_1": ["self_attn.out_proj"],
    "self_attention/layer_norm": ["self_attn_layer_norm"],
    "attention/linear_0": ["encoder_attn.q_proj"],
    "attention/linear_1": ["encoder_attn.k_proj", "encoder_attn.v_proj"],
    "attention/linear_2": ["encoder_attn.out_proj"],
    "attention/layer_norm": ["encoder_attn_layer_norm"],
    "ffn/linear_0": ["fc1"],
    "ffn/linear_1": ["fc2"],
    "ffn/layer_norm": ["final_layer_norm"],
}


def renamed(arrays):
    """The container's arrays under transformers' names, in f32; what it fused is parted."""
    state = {}
    for name, values in arrays.items():
        if values.ndim == 0 or "alignment" in name:
            continue
        side, rest = name.split("/", 1)
        part, kind = rest.rsplit("/", 1)
        kind = {"gamma": "weight", "beta": "bias", "encodings": "weight"}.get(kind, kind)
        targets = [{"embeddings": "embed_tokens", "position_encodings": "embed_positions"}.get(part, part)]
        if part.startswith("layer_") and part != "layer_norm":
            number, inner = part.removeprefix("layer_").split("/", 1)
            targets = [f"layers.{number}.{target}" for target in PARTS[inner]]
        for target, piece in zip(targets, np.split(values.astype(np.float32), len(targets))):
            if not (target.endswith("k_proj") and kind == "bias"):  # keys have none, the container says 0
                state[f"model.{side}.{target}.{kind}"] = torch.from_numpy(piece.copy())
    return state


def whisper(path):
    """transformers' Whisper with the weights of CTranslate2's container."""
    import transformers

    transformers.logging.set_verbosity_error()
    arrays = Container(path).arrays
    tokens, width = arrays["decoder/embeddings/weight"].shape
    layers = {side: sum(name.startswith(side) and name.endswith("ffn/linear_0/bias") for name in arrays)
              for side in ("encoder", "decoder")}  # fmt: skip
    heads, inner = int(arrays["encoder/num_heads"]), arrays["encoder/layer_0/ffn/linear_0/weight"].shape[0]
    config = transformers.WhisperConfig(
        vocab_size=tokens, d_model=width, num_mel_bins=arrays["encoder/conv1/weight"].shape[1],
        encoder_layers=layers["encoder"], decoder_layers=layers["decoder"], encoder_attention_heads=heads,
        decoder_attention_heads=heads, encoder_ffn_dim=inner, decoder_ffn_dim=inner,
        max_source_positions=arrays["encoder/position_encodings/encodings"].shape[0],
        max_target_positions=arrays["decoder/position_encodings/encodings"].shape[0],
        pad_token_id=0, bos_token_id=0, eos_token_id=0, decoder_start_token_id=0)  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config).eval()
    missing, unknown = model.load_state_dict(renamed(arrays), strict=False)
    if unknown or set(missing) - {"proj_out.weight"}:  # which is that of the tokens
        raise SystemExit(f"{path}: no weights for {missing}, no place for {unknown}")
    return model


def heads_of(x, count):
    return x.view(x.size(0), -1, count, x.size(-1) // count).transpose(1, 2)


def joined(x):
    x = x.transpose(1, 2)
    return x.reshape(x.size(0), -1, x.size(2) * x.size(3))


class Encoder(nn.Module):
    """A spectrogram to the keys and values that the decoder's layers look at: two tensors for each."""

    def __init__(self, model):
        super().__init__()
        self.encoder, self.decoder = model.model.encoder, model.model.decoder
        self.heads = model.config.encoder_attention_heads

    def forward(self, spectrogram):
        x = F.gelu(self.encoder.conv1(spectrogram))
        x = F.gelu(self.encoder.conv2(x)).transpose(1, 2) + self.encoder.embed_positions.weight
        for layer in self.encoder.layers:
            y, attention = layer.self_attn_layer_norm(x), layer.self_attn
            q, k, v = (heads_of(part(y), self.heads) for part in (attention.q_proj, attention.k_proj, attention.v_proj))
            x = x + attention.out_proj(joined(F.scaled_dot_product_attention(q, k, v)))
            x = x + layer.fc2(F.gelu(layer.fc1(layer.final_layer_norm(x))))
        x = self.encoder.layer_norm(x)
        attentions = [layer.encoder_attn for layer in self.decoder.layers]
        return tuple(heads_of(part(x), self.heads) for a in attentions for part in (a.k_proj, a.v_proj))


class Decoder(nn.Module):
    """Some tokens behind those of a cache to the logits of the next one, with the keys and values to add to the cache.

    `mask` (tokens, cache + tokens) is added to the scores of attention: 0, or -inf for what a token may not see.
    """

    def __init__(self, model):
        super().__init__()
        self.decoder = model.model.decoder
        self.heads = model.config.decoder_attention_heads

    def forward(self, tokens, positions, mask, *state):
        cache, heard = state[: len(state) // 2], state[len(state) // 2 :]
        x = self.decoder.embed_tokens(tokens) + self.decoder.embed_positions.weight[positions]
        added = []
        for i, layer in enumerate(self.decoder.layers):
            y, attention = layer.self_attn_layer_norm(x), layer.self_attn
            q, k, v = (heads_of(part(y), self.heads) for part in (attention.q_proj, attention.k_proj, attention.v_proj))
            added += [k, v]
            keys, values = torch.cat([cache[2 * i], k], 2), torch.cat([cache[2 * i + 1], v], 2)
            x = x + attention.out_proj(joined(F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)))
            attention = layer.encoder_attn
            q = heads_of(attention.q_proj(layer.encoder_attn_layer_norm(x)), self.heads)
            x = x + attention.out_proj(joined(F.scaled_dot_product_attention(q, heard[2 * i], heard[2 * i + 1])))
            x = x + layer.fc2(F.gelu(layer.fc1(layer.final_layer_norm(x))))
        last = self.decoder.layer_norm(x[:, -1])
        return F.linear(last, self.decoder.embed_tokens.weight), *added


def export_whisper(model, folder):
    """Writes encoder and decoder; lengths of what is heard are those of the model, those of tokens stay open."""
    import pnnx_case

    config = model.config
    layers, width = 2 * config.decoder_layers, config.d_model // config.decoder_attention_heads
    mel = torch.randn(1, config.num_mel_bins, 2 * config.max_source_positions)
    pnnx_case.convert(Encoder(model).eval(), [mel], str(folder), stem="encoder")

    def inputs(tokens, cached):
        state = [torch.randn(1, config.decoder_attention_heads, length, width)
                 for length in (cached, config.max_source_positions) for _ in range(layers)]  # fmt: skip
        ids = torch.arange(tokens).view(1, -1)
        return [ids, ids + cached, torch.zeros(tokens, cached + tokens), *state]

    pnnx_case.convert(Decoder(model).eval(), inputs(3, 16), str(folder), second=inputs(5, 24), stem="decoder")


def write_rules(folder, multilingual):
    """suppressed.txt: tokens that are no speech, and those that begin none. languages.txt: codes, or nothing."""
    rules = json.loads((folder / "config.json").read_text())
    lines = [" ".join(map(str, rules[key])) for key in ("suppress_ids", "suppress_ids_begin")]
    (folder / "suppressed.txt").write_text("\n".join(lines) + "\n")
    added = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    tokens = {token["id"]: token["content"] for token in added}
    codes = [tokens[token].strip("<|>") + "\n" for token in rules["lang_ids"]] if multilingual else []
    (folder / "languages.txt").write_text("".join(codes))
