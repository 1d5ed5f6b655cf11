#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes beams.json: what the beam search of transformers finds for the tiny language models of this folder.

    test/checkpoints/make_beams.py
    test/checkpoints/make_beams.py SmolLM2.gguf     # writes smollm2_beams.json instead, for that file

Each case has the model, the prompt, the options, and the answers, best first, with their scores. A case is left out
where float rounding could decide it: where in double precision some answer or score is another.

Needs torch and transformers; for a GGUF file gguf and accelerate, too.
"""
import json
import pathlib
import sys

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
TEXTS = ["The capital of France is", "def fibonacci(n):\n", "Once upon a time, there was a little"]
TEXT_OPTIONS = [
    dict(num_beams=2, length_penalty=1.0, early_stopping=False),
    dict(num_beams=4, length_penalty=1.0, early_stopping=True),
    dict(num_beams=5, length_penalty=2.0, early_stopping="never"),
    dict(num_beams=4, length_penalty=0.6, early_stopping=False, repetition_penalty=1.3),
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


def cases_of(name, load, prompts, all_options, tokens):
    model, exact = load(torch.float32).eval(), load(torch.float64).eval()
    for prompt in prompts:
        for options in all_options:
            answers = search(model, prompt, options, tokens)
            if same(answers, search(exact, prompt, options, tokens)):
                yield {"model": name, "prompt": prompt, "max_tokens": tokens} | options | {"answers": answers}


def write(name, cases):
    rows = ",\n".join(json.dumps(case) for case in cases)
    (HERE / name).write_text(f"[\n{rows}\n]\n")
    ended = sum(len(answer["tokens"]) < case["max_tokens"] for case in cases for answer in case["answers"])
    print(f"{len(cases)} cases, {ended} answers that end before their limit")


def main():
    from_pretrained = transformers.AutoModelForCausalLM.from_pretrained
    if len(sys.argv) > 1:
        file = pathlib.Path(sys.argv[1])
        place = dict(pretrained_model_name_or_path=file.parent, gguf_file=file.name)
        tokenizer = transformers.AutoTokenizer.from_pretrained(**place)
        prompts = [tokenizer.encode(text, add_special_tokens=False) for text in TEXTS]
        load = lambda dtype: from_pretrained(**place, dtype=dtype)
        return write("smollm2_beams.json", list(cases_of("smollm2", load, prompts, TEXT_OPTIONS, 12)))
    cases = []
    for family in ["llama", "qwen2", "qwen3", "gemma2", "gpt2"]:
        load = lambda dtype: from_pretrained(HERE / family, dtype=dtype)
        cases += cases_of(family, load, PROMPTS, OPTIONS, 16)
    write("beams.json", cases)


if __name__ == "__main__":
    main()
