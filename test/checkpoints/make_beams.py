#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes beams.json: what the beam search of transformers finds for the tiny language models of this folder.

    test/checkpoints/make_beams.py

Each case has the model, the prompt, the options, and the answers, best first, with their scores. A case is left out
where float rounding could decide it: where in double precision some answer or score is another.

Needs torch and transformers.
"""
import json
import pathlib

import torch
import transformers

HERE = pathlib.Path(__file__).parent
PROMPTS = [[3, 17, 29, 5], [31, 8, 14], [11], list(range(3, 25))]
OPTIONS = [
    dict(num_beams=2, length_penalty=1.0, early_stopping=False),
    dict(num_beams=4, length_penalty=1.0, early_stopping=True),
    dict(num_beams=4, length_penalty=0.0, early_stopping="never"),
    dict(num_beams=5, length_penalty=2.0, early_stopping="never"),
    dict(num_beams=6, length_penalty=-1.0, early_stopping=False),
    dict(num_beams=8, length_penalty=0.6, early_stopping=False, repetition_penalty=1.3),
    dict(num_beams=3, length_penalty=1.0, early_stopping=False, min_new_tokens=6),
]


def search(model, prompt, options, tokens):
    found = model.generate(
        torch.tensor([prompt]),
        do_sample=False,
        max_new_tokens=tokens,
        num_return_sequences=options["num_beams"],
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    answers = []
    for row, score in zip(found.sequences, found.sequences_scores):
        ids = row[len(prompt) :].tolist()
        end = next((i + 1 for i, token in enumerate(ids) if token in ends), len(ids))
        answers.append({"tokens": ids[:end], "score": score.item()})
    return answers


def same(a, b):
    return all(x["tokens"] == y["tokens"] and abs(x["score"] - y["score"]) < 1e-4 for x, y in zip(a, b))


def main():
    cases = []
    for family in ["llama", "qwen2", "qwen3", "gemma2", "gpt2"]:
        load = transformers.AutoModelForCausalLM.from_pretrained
        model = load(HERE / family, dtype=torch.float32).eval()
        exact = load(HERE / family, dtype=torch.float64).eval()
        for prompt in PROMPTS:
            for options in OPTIONS:
                answers = search(model, prompt, options, 16)
                if not same(answers, search(exact, prompt, options, 16)):
                    continue
                cases.append({"model": family, "prompt": prompt, "max_tokens": 16} | options | {"answers": answers})
    rows = ",\n".join(json.dumps(case) for case in cases)
    (HERE / "beams.json").write_text(f"[\n{rows}\n]\n")
    ended = sum(len(answer["tokens"]) < 16 for case in cases for answer in case["answers"])
    print(f"{len(cases)} cases, {ended} answers that end before their limit")


if __name__ == "__main__":
    main()
