#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Traces tiny language models of transformers with pnnx, and writes what transformers says of them.

    test/traces/make_traces.py [NAME...]

NAME.pnnx.param, NAME.pnnx.bin   as pnnx writes them, traced with TRACED tokens
NAME.json                        tokens, and the logits of all of them in f32

Needs torch, transformers and pnnx.
"""
import json
import pathlib
import sys
import tempfile

import pnnx
import torch
import transformers as hf

HERE = pathlib.Path(__file__).parent
TRACED = 7
TOKENS = [3, 17, 29, 5, 5, 38, 11, 0, 22, 31, 8, 14, 2, 27, 19]
PLAIN = dict(vocab_size=40, hidden_size=32, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=64, initializer_range=0.3)
GROUPED = PLAIN | dict(num_key_value_heads=2)
GPT = dict(vocab_size=40, n_embd=32, n_layer=2, n_head=4, n_positions=64, initializer_range=0.3)
YARN = dict(rope_type="yarn", factor=2.0, original_max_position_embeddings=32, rope_theta=10000.0)

# class of the model, of its config, what differs, implementation of attention, how many tokens can be compared
MODELS = {
    "llama_eager": (hf.LlamaForCausalLM, hf.LlamaConfig, GROUPED, "eager", len(TOKENS)),
    "llama_sdpa": (hf.LlamaForCausalLM, hf.LlamaConfig, GROUPED, "sdpa", len(TOKENS)),
    "qwen2_eager": (hf.Qwen2ForCausalLM, hf.Qwen2Config, GROUPED | dict(rope_parameters=YARN), "eager", len(TOKENS)),
    "qwen2_sdpa": (hf.Qwen2ForCausalLM, hf.Qwen2Config, GROUPED | dict(rope_parameters=YARN), "sdpa", len(TOKENS)),
    "mistral_eager": (hf.MistralForCausalLM, hf.MistralConfig, GROUPED | dict(sliding_window=5), "eager", len(TOKENS)),
    "mistral_sdpa": (hf.MistralForCausalLM, hf.MistralConfig, GROUPED | dict(sliding_window=5), "sdpa", len(TOKENS)),
    "qwen3": (hf.Qwen3ForCausalLM, hf.Qwen3Config, GROUPED | dict(head_dim=12), "sdpa", len(TOKENS)),
    "phi3": (hf.Phi3ForCausalLM, hf.Phi3Config, GROUPED | dict(pad_token_id=0), "sdpa", len(TOKENS)),
    "olmo2": (hf.Olmo2ForCausalLM, hf.Olmo2Config, GROUPED, "sdpa", len(TOKENS)),  # norms spelled out
    "gemma2": (
        hf.Gemma2ForCausalLM,
        hf.Gemma2Config,
        GROUPED | dict(head_dim=10, sliding_window=5, query_pre_attn_scalar=12, attn_logit_softcapping=3.0,
                       final_logit_softcapping=5.0),
        "eager",
        len(TOKENS),
    ),
    # (pnnx makes the gelu of another formula of gptj's usual one.) Half of each head is turned; in the second, the
    # pairs stand side by side.
    "gpt_neox": (hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig, PLAIN | dict(rotary_pct=0.5), "sdpa", len(TOKENS)),
    "gptj": (hf.GPTJForCausalLM, hf.GPTJConfig, GPT | dict(rotary_dim=4, activation_function="gelu"), "eager",
             len(TOKENS)),
    # Of the table of positions a trace holds the rows that it used.
    "gpt2_eager": (hf.GPT2LMHeadModel, hf.GPT2Config, GPT, "eager", TRACED),
    "gpt2_sdpa": (hf.GPT2LMHeadModel, hf.GPT2Config, GPT, "sdpa", TRACED),
    # Sees what comes behind: no decoder.
    "bert": (hf.BertForMaskedLM, hf.BertConfig, PLAIN, "sdpa", 0),
}


class Logits(torch.nn.Module):
    def __init__(self, model, options):
        super().__init__()
        self.model = model
        self.options = options

    def forward(self, tokens):
        return self.model(tokens, **self.options).logits


def make(name):
    kind, config, sizes, attention, length = MODELS[name]
    torch.manual_seed(6)
    model = kind(config(**sizes, attn_implementation=attention)).eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if weight.dim() == 1:
                weight.copy_(torch.randn_like(weight) * 0.2 + (0 if key.endswith("bias") or name == "gemma2" else 1))
    logits = Logits(model, dict(use_cache=False) if length else {})
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"{name}.pt"
        pnnx.export(logits, str(path), (torch.arange(TRACED).view(1, TRACED),))
        for ending in (".pnnx.param", ".pnnx.bin"):
            (HERE / (name + ending)).write_bytes(path.with_suffix(ending).read_bytes())
    if not length:
        return
    with torch.no_grad():
        rows = logits(torch.tensor([TOKENS[:length]]))[0]
    answer = {"tokens": TOKENS[:length], "logits": [[round(x, 6) for x in row] for row in rows.tolist()]}
    (HERE / f"{name}.json").write_text(json.dumps(answer) + "\n")


if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        make(name)
