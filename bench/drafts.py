#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times answers with guesses (--draft) against answers without, by turns, and checks that both are the same.

    bench/drafts.py build/oort MODEL                       # n-grams, with what the program finds worth while
    bench/drafts.py build/oort MODEL --draft SMALLER       # guesses of a smaller model
    bench/drafts.py build/oort MODEL --json drafts.json --rounds 7

Prompts are of four kinds: such whose answers repeat much of the prompt (a text to correct, a program to change), such
that ask for a summary, such that ask for a program, and such whose answers have nothing to copy from. A ratio is the
median over the rounds of tokens a second with guesses over that without, of two runs one right after the other.
"""
import argparse
import json
import platform
import statistics
import subprocess

LETTER = (
    "Dear Mrs Miller, thank you for your letter of the third of May about the roof of the old school house. We has "
    "looked at the pictures that you sent us. The tiles on the north side is broken, and two of the beams below them "
    "is wet. We can begin with the work in the second week of June, and it will take us about nine days. The price for "
    "the tiles, the two beams and the work is four thousand and two hundred pounds. Please tell us until the end of "
    "May whether you wants us to come. Yours sincerely, John Baker"
)
CODE = """class Account:
    def __init__(self, owner, balance):
        self.owner = owner
        self.balance = balance

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("amount must be positive")
        self.balance += amount
        return self.balance

    def withdraw(self, amount):
        if amount <= 0:
            raise ValueError("amount must be positive")
        if amount > self.balance:
            raise ValueError("not enough money")
        self.balance -= amount
        return self.balance
"""
ARTICLE = (
    "The river Tarn rises on Mont Lozere in the south of France and runs west through gorges that are up to six "
    "hundred metres deep. Its water has cut through the limestone of the Causses over two million years. Villages such "
    "as Sainte Enimie and La Malene lie on its banks, and boatmen take visitors through the narrowest part of the "
    "gorges. Behind Millau the valley widens, and a bridge of seven piers carries the motorway over it. The highest of "
    "the piers stands two hundred and forty-five metres above the ground. The Tarn flows into the Garonne near Moissac."
)
PROMPTS = {
    "edit": [
        f"Correct the grammar of this letter, and write the whole letter again:\n\n{LETTER}",
        f"Rename the class Account to Wallet, and write the whole program again:\n\n{CODE}",
    ],
    "summary": [f"Summarize this text in its own words, sentence by sentence:\n\n{ARTICLE}"],
    "code": [
        "Write a Python class for a queue with a fixed capacity, with methods to add, remove and count items.",
        "Write a function in C that reverses a linked list, and a main function that shows how it is used.",
    ],
    "free": [
        "Tell me a story about a lighthouse and a storm.",
        "Explain why leaves change their colour in autumn.",
        "What should somebody know who moves to another country?",
    ],
}


def ask(options, prompt, draft):
    command = [options.program, "generate", options.model, "--prompt", prompt, "--max-tokens", str(options.tokens)]
    command += ["--threads", str(options.threads), "--device", options.device, "--json", *draft]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr.strip())
    return json.loads(done.stdout)


def measure(options, kind, prompt):
    draft = ["--draft", options.draft]
    if options.draft_tokens:
        draft += ["--draft-tokens", str(options.draft_tokens)]
    ratios, plain_rates, draft_rates = [], [], []
    for turn in range(options.rounds):
        order = [[], draft] if turn % 2 == 0 else [draft, []]
        answers = [ask(options, prompt, one) for one in order]
        plain, guessed = answers if turn % 2 == 0 else answers[::-1]
        if plain["token_ids"] != guessed["token_ids"]:
            raise SystemExit(f"the answers differ for: {prompt[:60]}…")
        plain_rates.append(plain["timings"]["tokens_per_second"])
        draft_rates.append(guessed["timings"]["tokens_per_second"])
        ratios.append(draft_rates[-1] / plain_rates[-1])
    return {
        "kind": kind,
        "prompt": prompt.split("\n")[0],
        "tokens": len(plain["token_ids"]),
        "plain_tps": statistics.median(plain_rates),
        "draft_tps": statistics.median(draft_rates),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "draft": guessed["draft"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--draft", default="ngram")
    parser.add_argument("--draft-tokens", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", default="edit,summary,code,free")
    parser.add_argument("--json")
    options = parser.parse_args()
    rows = []
    print(f"{'kind':8} {'plain':>7} {'drafts':>7} {'ratio':>6} {'a step':>7} {'right':>11}  prompt")
    for kind in options.kinds.split(","):
        for prompt in PROMPTS[kind]:
            row = measure(options, kind, prompt)
            rows.append(row)
            guesses = f"{row['draft']['accepted']}/{row['draft']['drafted']}"
            print(f"{kind:8} {row['plain_tps']:7.1f} {row['draft_tps']:7.1f} {row['ratio']:6.2f} "
                  f"{row['draft']['tokens_per_step']:7.2f} {guesses:>11}  {row['prompt'][:50]}", flush=True)
    for kind in dict.fromkeys(row["kind"] for row in rows):
        mean = statistics.geometric_mean(row["ratio"] for row in rows if row["kind"] == kind)
        print(f"{kind}: {mean:.2f} times as fast")
    if options.json:
        report = {"machine": platform.machine(), "model": options.model.rsplit("/", 1)[-1], "rows": rows}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
