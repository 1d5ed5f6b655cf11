#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tiny encoder-decoders with random weights, and what transformers says of them.

    test/checkpoints/make_encoder_decoders.py

NAME/config.json, model.safetensors, tokenizer.json   as transformers and tokenizers save them
NAME.json                                             for texts the logits behind given tokens, and greedy answers

Needs torch, transformers and tokenizers.
"""
import json
import pathlib
import shutil

import tokenizers
import torch
import transformers

HERE = pathlib.Path(__file__).parent
VOCABULARY = 40
TEXTS = [[3, 17, 29, 5, 5, 38, 11, 1], [22, 1], [9, 31, 8, 14, 30, 7, 7, 12, 25, 33, 6, 19, 4, 28, 21, 36, 13, 10, 35,
                                                 1]]
FORCED = [0, 12, 30, 7, 7, 22]
T5 = dict(
    vocab_size=VOCABULARY,
    d_model=32,
    d_kv=10,
    d_ff=24,
    num_layers=2,
    num_decoder_layers=3,
    num_heads=4,
    relative_attention_num_buckets=8,
    relative_attention_max_distance=12,
    decoder_start_token_id=0,
    initializer_factor=1.0,
)
BART = dict(
    vocab_size=VOCABULARY,
    d_model=32,
    encoder_layers=2,
    decoder_layers=3,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=24,
    decoder_ffn_dim=20,
    max_position_embeddings=64,
    init_std=0.3,
    scale_embedding=True,
    decoder_start_token_id=2,
    forced_bos_token_id=0,
    forced_eos_token_id=None,
    eos_token_id=2,
    bos_token_id=0,
    pad_token_id=1,
)
MODELS = {
    "t5": transformers.T5Config(**T5),
    "t5_gated": transformers.T5Config(**T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    "bart": transformers.BartConfig(**BART),
}


def make_model(config):
    torch.manual_seed(8)
    model = transformers.AutoModelForSeq2SeqLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:
                weight.copy_(torch.randn_like(weight) * 0.2 + (0 if name.endswith("bias") else 1))
            elif "shared" in name:  # else a token would be followed by itself
                weight.copy_(torch.randn_like(weight) * 0.3)
            else:
                weight.copy_(torch.randn_like(weight) * 0.5)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.copy_(torch.randn_like(model.final_logits_bias))
    if config.model_type == "bart":
        model.generation_config.forced_bos_token_id = 0
    return model


def greedy(model, text, count=12):
    """The most likely tokens, each from a pass over all before it."""
    config = model.generation_config
    tokens = [config.decoder_start_token_id]
    with torch.no_grad():
        for _ in range(count):
            logits = model(input_ids=torch.tensor([text]), decoder_input_ids=torch.tensor([tokens])).logits[0, -1]
            forced = config.forced_bos_token_id if len(tokens) == 1 else None
            tokens.append(int(logits.argmax()) if forced is None else forced)
    return tokens[1:]


def write_tokenizer(folder, before):
    """Letters and a few words; what matters is that a text becomes tokens."""
    pieces = ["<s>" if before else "<pad>", "</s>", "<unk>"] + ["\u2581"] + [chr(ord("a") + i) for i in range(26)]
    pieces += ["\u2581a", "\u2581the", "ing", "er", "\u2581to", "on", "th", "at", "he", "in"]
    model = tokenizers.models.Unigram([(piece, -float(i) / 4) for i, piece in enumerate(pieces)], unk_id=2)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.decoder = tokenizers.decoders.Metaspace()
    tokenizer.add_special_tokens(pieces[:3])
    single = "<s> $A </s>" if before else "$A </s>"
    names = [("</s>", 1)] + ([("<s>", 0)] if before else [])
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single=single, special_tokens=names)
    tokenizer.save(str(folder / "tokenizer.json"))


def main():
    for name, config in MODELS.items():
        model = make_model(config)
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        model.save_pretrained(folder)
        write_tokenizer(folder, name == "bart")
        with torch.no_grad():
            logits = [model(input_ids=torch.tensor([text]),
                            decoder_input_ids=torch.tensor([FORCED])).logits[0].tolist() for text in TEXTS]
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        prompt = tokenizer.encode("the cat sat on a mat").ids
        answers = [dict(text=text, tokens=greedy(model, text)) for text in TEXTS + [prompt]]
        written = dict(forced=FORCED, logits=[[[round(x, 6) for x in row] for row in rows] for rows in logits],
                       answers=answers)
        (HERE / f"{name}.json").write_text(json.dumps(written) + "\n")


if __name__ == "__main__":
    main()
