# SPDX-License-Identifier: MIT
"""What transformers answers with this folder, greedily and in f32: answers.json, which test_models holds Oort
against."""
import json
import pathlib

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

FOLDER = pathlib.Path(__file__).resolve().parent
CHATS = [["Tell me a story about a fox."], ["Write a short story about a lost key."],
         ["A story about an owl and a drum, please."], ["Do you know a story about a girl on a rainy day?"], ["Hello!"],
         ["Tell me a story about music.", None, "Who was the story about?"]]
RAW = ["Once upon a time", "One fine day, a brave mouse called Pip", "\"Who is there?\" asked"]
NEW_TOKENS = 200


def greedy(model, ids):
    """The likeliest tokens one after the other, their log-probabilities, and how far behind the second best is."""
    ids, start = list(ids), len(ids)
    logprobs, gaps = [], []
    while len(ids) - start < NEW_TOKENS and (len(ids) == start or ids[-1] != model.config.eos_token_id):
        scores = model(input_ids=torch.tensor([ids])).logits[0, -1].double().log_softmax(-1)
        best = scores.topk(2).values
        ids.append(int(scores.argmax()))
        logprobs.append(round(float(best[0]), 5))
        gaps.append(round(float(best[0] - best[1]), 5))
    return {"ids": ids[start:], "logprobs": logprobs, "gaps": gaps}


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    model = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval()
    answers = []

    def answer(messages, prompt, prompt_ids):
        found = greedy(model, prompt_ids)
        text = tokenizer.decode(found["ids"], skip_special_tokens=True)
        answers.append({"messages": messages, "prompt": prompt, "prompt_ids": list(prompt_ids), **found, "text": text})
        print(f"> {prompt}\n{text}\n")
        return text

    for chat in CHATS:
        messages = []
        for i, content in enumerate(chat):
            if i % 2 == 0:
                messages.append({"role": "user", "content": content})
                prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
                ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
                said = answer(list(messages), prompt, ids)
            else:
                messages.append({"role": "assistant", "content": said})
    for prompt in RAW:
        answer(None, prompt, tokenizer(prompt)["input_ids"])
    rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in answers)
    (FOLDER / "answers.json").write_text(f"[\n{rows}\n]\n")


if __name__ == "__main__":
    main()
