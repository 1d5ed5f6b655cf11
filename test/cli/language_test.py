#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The commands on language models from outside, with the storyteller of this repository; what transformers answers with
it is in its answers.json."""
import json
import shutil
import subprocess
import unittest

from cli_test import OORT, SOURCE, Case
from hollow import write_hollow_model

STORYTELLER = SOURCE / "models" / "storyteller"
TINY = SOURCE / "test" / "checkpoints"
ANSWERS = json.loads((STORYTELLER / "answers.json").read_text())
CHATS = [row for row in ANSWERS if row["messages"] and len(row["messages"]) == 1]
RAW = [row for row in ANSWERS if not row["messages"]]
PARITY = ["--exact", "--kv", "f32", "--threads", "1"]


class LanguageCase(Case):
    def feed(self, text, *arguments, code=0):
        done = subprocess.run([OORT, *map(str, arguments)], input=text.encode(), capture_output=True, timeout=300)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout.decode()

    def storyteller_with(self, template):
        """A copy with another chat template."""
        folder = self.dir / "storyteller"
        folder.mkdir()
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            shutil.copy(STORYTELLER / name, folder)
        settings = json.loads((STORYTELLER / "tokenizer_config.json").read_text())
        (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": template}))
        return folder

    def converted(self, *arguments):
        self.oort("convert", STORYTELLER, self.dir / "m.pnnx.param", *arguments)
        return self.dir / "m.pnnx.param"


class GenerateTest(LanguageCase):
    def test_answers_as_transformers_does(self):
        for row in CHATS[:2]:
            prompt = row["messages"][0]["content"]
            report = self.json("generate", STORYTELLER, "--prompt", prompt, "--max-tokens", 200, *PARITY)
            self.assertEqual(report["text"], row["text"])
            self.assertEqual(report["token_ids"], row["ids"])
            self.assertEqual(report["prompt_token_ids"], row["prompt_ids"])
            self.assertEqual(report["finish_reason"], "stop" if row["ids"][-1] == 1 else "length")
            timings = report["timings"]
            for name in ("load_ms", "prompt_ms", "first_token_ms", "generate_ms", "prompt_tokens_per_second",
                         "tokens_per_second"):
                self.assertGreater(timings[name], 0, name)
            self.assertEqual(self.oort("generate", STORYTELLER, "--prompt", prompt, "--max-tokens", 200, *PARITY).out,
                             row["text"] + "\n")

    def test_several_answers(self):
        ask = ["generate", STORYTELLER, "--prompt", "Tell me a story.", "--max-tokens", 12, "--temperature", 1,
               "--threads", 1]
        alone = [self.json(*ask, "--seed", 7 + i) for i in range(3)]
        several = self.json(*ask, "--seed", 7, "--n", 3)
        answers = [several, *several["others"]]
        for one, answer in zip(alone, answers, strict=True):
            self.assertEqual(answer["text"], one["text"])
            self.assertEqual(answer["seed"], one["seed"])
        printed = self.oort(*ask, "--seed", 7, "--n", 3).out
        self.assertEqual(printed, "\n---\n\n".join(one["text"] + "\n" for one in alone))
        best = self.json(*ask, "--seed", 7, "--best-of", 3, "--logprobs", 0)
        answers = [self.json(*ask, "--seed", 7 + i, "--logprobs", 0) for i in range(3)]
        means = [sum(row["logprob"] for row in answer["logprobs"]) / 12 for answer in answers]
        self.assertAlmostEqual(best["score"], max(means), places=4)
        self.assertNotIn("others", best)
        self.fails(*ask, "--n", 3, "--best-of", 2, code=2, says="--best-of is at least --n")
        self.fails(*ask, "--beams", 2, code=2, says="--temperature")
        self.fails(*ask[:6], "--n", 2, code=2, says="--temperature above 0")
        self.fails(*ask, "--n", 1000, code=2, says="--n")

    def test_encoder_decoders_answer_as_transformers_does(self):
        for name in ("t5", "t5_gated", "bart"):
            want = json.loads((TINY / f"{name}.json").read_text())["answers"][-1]
            ask = ["generate", TINY / name, "--prompt", "the cat sat on a mat", "--max-tokens", 12, "--ignore-end"]
            report = self.json(*ask)
            self.assertEqual(report["prompt_token_ids"], want["text"])
            self.assertEqual(report["token_ids"], want["tokens"])
            self.assertEqual(report["finish_reason"], "length")
            self.assertEqual(self.oort(*ask).out, report["text"] + "\n")
            self.assertEqual(self.feed("the cat sat on a mat", *ask[:3], "-", *ask[4:]), report["text"] + "\n")
            self.assertEqual(self.json(*ask, "--raw")["token_ids"], want["tokens"])
            self.assertEqual(self.json(*ask, "--beams", 1)["token_ids"], want["tokens"])
        drawn = [*ask, "--temperature", 1, "--seed"]
        alone = [self.json(*drawn, seed)["token_ids"] for seed in (3, 4)]
        several = self.json(*drawn, 3, "--n", 2)
        self.assertEqual([several["token_ids"], several["others"][0]["token_ids"]], alone)
        self.fails(*ask, "--system", "x", code=2, says="--system needs a chat template")
        self.fails(*ask, "--memory-limit", "1kB", says="raise the limit")
        self.fails(*ask, "--weights", "int8", says="is not for encoder-decoders")
        self.fails("perplexity", TINY / "t5", TINY / "t5" / "config.json", says="is not for encoder-decoders")
        self.assertIn("t5", self.oort("info", TINY / "t5").out)

    def test_guesses_change_no_answer(self):
        for options in (["--temperature", 0.8, "--seed", 3], []):
            ask = ["generate", STORYTELLER, "--prompt", "Tell me a story.", "--max-tokens", 60, *options, *PARITY]
            plain = self.json(*ask)
            self.assertNotIn("draft", plain)
            for draft in (["ngram"], ["ngram", "--draft-tokens", 4], [STORYTELLER / "heads", "--draft-tokens", 3],
                          [STORYTELLER / "heads"], [STORYTELLER, "--draft-tokens", 5]):
                answer = self.json(*ask, "--draft", *draft)
                self.assertEqual(answer["token_ids"], plain["token_ids"])
            self.assertEqual(answer["draft"]["accepted"], answer["draft"]["drafted"])
            self.assertGreater(answer["draft"]["tokens_per_step"], 4)
        self.fails(*ask, "--draft", TINY / "llama", says="the draft model cannot guess for this one")
        self.fails("generate", TINY / "llama", "--raw", "--prompt", "a", "--draft", STORYTELLER / "heads",
                   says="draft heads")
        self.fails(*ask, "--draft", "ngram", "--draft-tokens", 16, code=2, says="--draft-tokens")
        self.fails(*ask, "--draft-tokens", 4, code=2, says="--draft")
        bench = self.json("bench-llm", STORYTELLER, "--new-tokens", 20, "--rounds", 1, "--draft", STORYTELLER,
                          "--draft-tokens", 3)
        self.assertEqual(bench["draft"]["accepted"], bench["draft"]["drafted"])

    def test_beams(self):
        ask = ["generate", STORYTELLER, "--prompt", "Tell me a story.", "--max-tokens", 12, *PARITY]
        one = self.json(*ask, "--beams", 1, "--ignore-end")
        self.assertEqual(one["token_ids"], self.json(*ask, "--ignore-end")["token_ids"])
        four = self.json(*ask, "--beams", 4, "--n", 2, "--length-penalty", 0, "--early-stopping", "never",
                         "--ignore-end")
        self.assertGreaterEqual(four["score"], 12 * one["score"])
        self.assertGreater(four["score"], four["others"][0]["score"])
        self.fails(*ask, "--length-penalty", 2, code=2, says="--beams")

    def test_at_least_so_many_tokens(self):
        ask = ["generate", STORYTELLER, "--raw", "--prompt", "The end.", "--max-tokens", 60, "--min-tokens", 50,
               "--threads", 1]
        self.assertGreaterEqual(len(self.json(*ask)["token_ids"]), 50)

    def test_weights_on_the_way(self):
        ask = ["--raw", "--prompt", "Once", "--max-tokens", 20]
        loaded = self.json("generate", STORYTELLER, "--weights", "int8", *ask)
        self.assertEqual(loaded["token_ids"], self.json("generate", self.converted("--weights", "int8"),
                                                        *ask)["token_ids"])
        self.fails("generate", STORYTELLER, "--weights", "int3", *ask, code=2, says="int8,int4")
        self.fails("generate", STORYTELLER, "--weights", "int8", "--group", 7, *ask, code=2, says="--group")
        for weights in ([], ["--weights", "bf16"]):
            self.fails("generate", STORYTELLER, *weights, "--group", 64, *ask, code=2,
                       says="--group needs --weights int8")

    def test_memory_limit(self):
        ask = ["generate", STORYTELLER, "--raw", "--prompt", "Once", "--max-tokens", 3]
        self.assertEqual(self.oort(*ask, "--memory-limit", "1GB").out, self.oort(*ask).out)
        self.fails(*ask, "--memory-limit", "1MB", says="raise the limit")
        done = self.fails(*ask, "--memory-limit", "1kB",
                          says=" in 1 kB: raise the limit, or take weights of fewer bits")
        self.assertNotIn("prompt_chunk", done.err)
        self.fails(*ask, "--memory-limit", "much", code=2, says="--memory-limit")

    def test_raw_text(self):
        for row in RAW:
            report = self.json("generate", STORYTELLER, "--raw", "--prompt", row["prompt"], "--max-tokens", 40, *PARITY)
            self.assertEqual(report["prompt_token_ids"], row["prompt_ids"])
            self.assertEqual(report["token_ids"], row["ids"][:40])
            self.assertTrue(row["text"].startswith(report["text"]))
        self.assertEqual(self.feed(RAW[0]["prompt"], "generate", STORYTELLER, "--raw", "--prompt", "-", "--max-tokens",
                                   200, *PARITY), RAW[0]["text"] + "\n")

    def test_options_of_sampling(self):
        ask = ["generate", STORYTELLER, "--prompt", "Tell me a story.", "--max-tokens", 30, "--threads", 1]
        drawn = [self.oort(*ask, "--temperature", 1, "--seed", seed).out for seed in (1, 1, 2)]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])
        # Without a seed each run has its own, which gives the same answer again.
        reports = [self.json(*ask, "--temperature", 1.2) for _ in range(3)]
        self.assertGreater(len({report["seed"] for report in reports}), 1)
        again = self.json(*ask, "--temperature", 1.2, "--seed", reports[0]["seed"])
        self.assertEqual((again["seed"], again["token_ids"]), (reports[0]["seed"], reports[0]["token_ids"]))
        self.assertNotIn("seed", self.json(*ask))
        greedy = self.oort(*ask).out
        self.assertEqual(self.oort(*ask, "--temperature", 1, "--top-k", 1).out, greedy)
        self.assertEqual(self.oort(*ask, "--temperature", 1, "--top-p", 1e-6).out, greedy)
        self.assertEqual(self.oort(*ask, "--temperature", 1, "--min-p", 1).out, greedy)
        self.assertNotEqual(self.oort(*ask, "--repetition-penalty", 3).out, greedy)
        report = self.json(*ask, "--stop", "nowhere", "--stop", greedy.split()[3])
        self.assertEqual(report["finish_reason"], "stop")
        self.assertEqual(report["stop"], greedy.split()[3])
        self.assertTrue(greedy.startswith(report["text"]))
        self.assertNotIn(report["stop"], report["text"])
        report = self.json(*ask[:-4], "--max-tokens", 0)
        self.assertEqual((report["text"], report["token_ids"], report["finish_reason"]), ("", [], "length"))

    def test_log_probabilities(self):
        row = RAW[0]
        report = self.json("generate", STORYTELLER, "--raw", "--prompt", row["prompt"], "--max-tokens", 10,
                           "--logprobs", 2, *PARITY)
        for token, logprob, gap, entry in zip(row["ids"], row["logprobs"], row["gaps"], report["logprobs"]):
            self.assertEqual(entry["token_id"], token)
            self.assertAlmostEqual(entry["logprob"], logprob, delta=1e-3)
            self.assertEqual(entry["top"][0]["token_id"], token)
            self.assertAlmostEqual(entry["top"][0]["logprob"] - entry["top"][1]["logprob"], gap, delta=2e-3)

    def test_a_broken_template_is_an_error_where_it_is_used(self):
        folder = self.storyteller_with("{% for m in messages %}")
        self.fails("generate", folder, "--prompt", "Hello!", says="chat template, line 1")
        self.assertNotEqual(self.oort("generate", folder, "--raw", "--prompt", "Once", "--max-tokens", 3).out, "\n")
        self.assertRegex(self.oort("info", folder).out, r"chat template +default, unusable: chat template, line 1")
        self.assertIn("line 1", self.json("info", folder)["language_model"]["chat_templates"][0]["problem"])

    def test_errors(self):
        ask = ["generate", STORYTELLER, "--prompt", "Hello!"]
        self.fails("generate", STORYTELLER, code=2, says="--prompt")
        self.fails("generate", self.dir / "none", "--prompt", "x", says="none")
        self.fails(*ask, "--system", "You are a poet.", says="user and assistant alone")
        self.fails(*ask, "--raw", "--system", "x", code=2, says="--system")
        for option, wrong in (("--temperature", "nan"), ("--temperature", "-1"), ("--top-p", "0"), ("--top-p", "3"),
                              ("--min-p", "2"), ("--top-k", "-1"), ("--repetition-penalty", "0"),
                              ("--presence-penalty", "inf"), ("--stop", ""),
                              ("--max-tokens", "-3"), ("--kv", "int7"), ("--weights", "int3")):  # fmt: skip
            self.fails(*ask, option, wrong, code=2, says=option)
        self.fails("generate", self.dir / "none", "--prompt", "x", "--top-p", "3", code=2,
                   says="--top-p must be above 0 and at most 1, not 3")
        for option, value in (("--top-k", 5), ("--top-p", 0.9), ("--min-p", 0.1)):
            self.fails(*ask, option, value, code=2, says=f"{option} needs a --temperature above 0")
        self.fails(*ask, "--logprobs", "2", code=2, says="--logprobs requires --json")
        for raw in ([], ["--raw"]):
            self.fails("generate", STORYTELLER, *raw, "--prompt", b"\xff\xfe".decode("utf-8", "surrogateescape"),
                       says="the prompt is no valid UTF-8")
        self.fails(*ask, "--context", "0", code=2)
        self.fails(*ask, "--context", "2", says="room for 2")
        self.fails(*ask, "--context", 2**62, code=2, says="--context")
        for wrong in (-1, 100000, "two"):
            self.fails(*ask, "--threads", wrong, code=2, says="--threads")
        for wrong in (-1, 2**64, "one", ""):
            self.fails(*ask, "--seed", wrong, code=2, says="--seed")
        for wrong in ("7", "x=1", "1=x", "=", "1=2=3"):
            self.fails(*ask, "--logit-bias", wrong, code=2, says="--logit-bias")
        self.fails(*ask, "--logit-bias", "1000000=1", says="logit_bias")
        self.fails(*ask, "--max-tokens", 10**20, code=2, says="--max-tokens")
        self.fails(*ask, "--memory-limit", "-5", code=2, says="--memory-limit")
        self.fails("generate", STORYTELLER, "--raw", "--prompt", "word " * 600, says="tokens; the model's context")
        self.fails("generate", TINY / "llama2c_v1.bin", "--prompt", "x", says="without a chat template")
        alone = shutil.copy(TINY / "llama2c_v1.bin", self.dir)
        for text, says in (("<html>", "web page"), ("version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
                           ("", "it is empty")):
            self.fails("generate", self.write("m.gguf", text), "--raw", "--prompt", "x", says=says)
        for command in ("run", "bench"):
            self.fails(command, STORYTELLER, says="is a language model: generate")
        self.fails("generate", alone, "--raw", "--prompt", "x", says="without a tokenizer")

    def test_a_context_that_fills_up(self):
        report = self.json("generate", STORYTELLER, "--raw", "--prompt", "Once upon a time", "--context", 30,
                           "--ignore-end", "--threads", 1)
        self.assertEqual(report["finish_reason"], "length")
        # The last token is never read: it has no place in the context.
        self.assertEqual(len(report["prompt_token_ids"]) + len(report["token_ids"]), 31)

    def test_a_context_beyond_that_of_the_model(self):
        ask = ["generate", STORYTELLER, "--raw", "--prompt", "Once", "--max-tokens", 3]
        self.assertEqual(self.oort(*ask, "--context", 512).out, self.oort(*ask, "--threads", 0).out)
        self.fails(*ask, "--context", 513, code=2, says="--context 513: the model was made for 512 tokens at most")

    def test_help_tells_defaults(self):
        text = " ".join(self.oort("generate", "--help").out.split())
        for default in ("as many as the model was made for, 8192 at most", "another one each time",
                        "f16; f32 with --exact", "=512 Tokens of the answer"):
            self.assertIn(default, text)

    def test_logit_bias(self):
        ask = ["generate", STORYTELLER, "--raw", "--prompt", "Once", "--max-tokens", 3]
        first = self.json(*ask)["token_ids"][0]
        self.assertNotEqual(self.json(*ask, "--logit-bias", f"{first}=-inf")["token_ids"][0], first)
        self.assertEqual(self.json(*ask, "--logit-bias", "7=1e9", "--logit-bias", f"{first}=-1.5")["token_ids"],
                         [7, 7, 7])

    def test_the_form_of_the_answer(self):
        """A model that knows stories alone keeps to whatever it is told."""
        ask = ["generate", STORYTELLER, "--prompt", "Tell me a story.", "--temperature", 1]
        schema = {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 10},
                "age": {"type": "integer", "minimum": 3, "maximum": 77},
                "tags": {"type": "array", "items": {"enum": ["red", "blue"]}, "minItems": 1, "maxItems": 3},
            },
            "required": ["name", "age", "tags"],
            "additionalProperties": False,
        }
        file = self.dir / "schema.json"
        file.write_text(json.dumps(schema))
        for seed in range(5):
            report = self.json(*ask, "--seed", seed, "--json-schema", file)
            self.assertEqual(report["finish_reason"], "stop")
            answer = json.loads(report["text"])
            self.assertEqual(list(answer), ["name", "age", "tags"])
            self.assertLessEqual(len(answer["name"]), 10)
            self.assertTrue(3 <= answer["age"] <= 77)
            self.assertTrue(1 <= len(answer["tags"]) <= 3 and set(answer["tags"]) <= {"red", "blue"})
            chosen = self.json(*ask, "--seed", seed, "--choice", "yes", "--choice", "no")["text"]
            self.assertIn(chosen, ("yes", "no"))
            self.assertRegex(self.json(*ask, "--seed", seed, "--regex", "[a-c]{3}-[0-9]{2}")["text"],
                             r"\A[a-c]{3}-[0-9]{2}\Z")
        grammar = self.dir / "grammar.gbnf"
        grammar.write_text('root ::= ("fox" | "cow") " and " root | "end"')
        for given in (grammar, grammar.read_text()):
            self.assertRegex(self.json(*ask, "--seed", 1, "--grammar", given)["text"], r"\A((fox|cow) and )*end\Z")
        in_place = self.json(*ask, "--seed", 4, "--json-schema", " " + json.dumps(schema))
        self.assertEqual(in_place["text"], report["text"])
        self.fails(*ask, "--choice", "a", "--regex", "b", code=2, says="--regex")
        self.fails(*ask, "--regex", "(a", code=1, says="unmatched")
        for option, wants in (("--json-schema", "a JSON Schema"), ("--grammar", "a GBNF grammar"),
                              ("--regex", "a regular expression")):  # fmt: skip
            done = self.fails(*ask, option, "", code=2, says=f"{option}: is empty: give ")
            self.assertIn(wants, done.err)
        self.fails(*ask, "--json-schema", self.dir / "missing.json", code=1, says="missing.json")
        file.write_text('{"not": {}}')
        self.fails(*ask, "--json-schema", file, code=1, says="'not'")

    def test_converted_models_answer_alike(self):
        ask = ["--raw", "--prompt", RAW[0]["prompt"], "--max-tokens", 60, *PARITY]
        self.assertEqual(self.json("generate", self.converted(), *ask)["token_ids"], RAW[0]["ids"][:60])
        text = self.oort("generate", self.converted("--weights", "int8"), *ask).out
        self.assertGreater(len(text), 100)


class GenerateMemoryTest(LanguageCase):
    def test_no_more_than_the_file_the_cache_and_60_megabytes(self):
        sizes = dict(layers=8, hidden=768, vocabulary=1024)
        write_hollow_model(self.dir / "hollow", **sizes, dtype="BF16", words=STORYTELLER)
        models = {self.dir / "hollow": self.dir / "hollow" / "model.safetensors"}
        for weights in ("int8", "int4"):
            self.oort("convert", self.dir / "hollow", self.dir / f"{weights}.pnnx.param", "--weights", weights)
            models[self.dir / f"{weights}.pnnx.param"] = self.dir / f"{weights}.pnnx.bin"
        cache = 256 * 2 * 2 * sizes["layers"] * sizes["hidden"]
        for model, file in models.items():
            peak = self.peak_bytes("generate", model, "--raw", "--prompt", "Once upon a time", "--max-tokens", 8,
                                   "--context", 256)
            self.assertLess(peak, file.stat().st_size + cache + 60e6, model)


class LanguageInfoTest(LanguageCase):
    def test_a_model_and_what_was_converted_from_it(self):
        for model in (STORYTELLER, self.converted("--weights", "int4")):
            out = self.oort("info", model).out
            for words in (r"language model +llama\n", r"layers +4 of 128\n",
                          r"heads +4, 2 of keys and values, each of 32\n", r"vocabulary +1024\n", r"context +512\n",
                          r"tokenizer +yes\n", r"chat template +default\n",
                          r"model\.layers\.2\.self_attn +oort\.PagedAttention "):
                self.assertRegex(out, words)
            about = self.json("info", model)["language_model"]
            self.assertEqual((about["family"], about["kv_heads"], about["end_tokens"]), ("llama", 2, [1]))
            self.assertEqual(about["chat_templates"], [{"name": "default", "problem": None}])
        self.assertLess(about["weight_bytes"], 700_000)
        self.assertRegex(self.oort("info", TINY / "qwen2.gguf").out,
                         r"language model +qwen2\n(.*\n)+chat template +tool_use\n")
        self.assertRegex(self.oort("info", TINY / "llama2c_v1.bin").out,
                         r"language model +llama\n(.*\n)+chat template +none\n")
        self.assertNotIn("language model", self.oort("info", SOURCE / "models" / "digits").out)


class TokenizeModelTest(LanguageCase):
    def test_one_line_of_ids(self):
        row = RAW[1]
        self.assertEqual(self.feed(row["prompt"], "tokenize", STORYTELLER, "--ids"),
                         " ".join(map(str, row["prompt_ids"])) + "\n")
        self.assertEqual(self.feed(row["prompt"], "tokenize", STORYTELLER, "--ids", "--no-special"),
                         " ".join(map(str, row["prompt_ids"][1:])) + "\n")
        for model in (self.converted(), STORYTELLER / "tokenizer.json"):
            self.assertEqual(self.feed(row["prompt"], "tokenize", model, "--ids").split(),
                             list(map(str, row["prompt_ids"])))
        self.assertEqual(self.feed("ab", "tokenize", TINY / "llama2c_v1.bin", "--ids"),
                         self.feed("ab", "tokenize", TINY / "tokenizer.bin", "--ids"))
        self.assertEqual(self.feed(" ".join(map(str, row["ids"])), "tokenize", STORYTELLER, "--decode"), row["text"])

    def test_errors(self):
        self.feed("1 two", "tokenize", STORYTELLER, "--decode", code=2)
        self.feed("x", "tokenize", self.dir / "none", code=1)


class BenchLlmTest(LanguageCase):
    QUICK = ["--prompt-tokens", 20, "--new-tokens", 6, "--rounds", 2, "--threads", 1]

    def test_last_line_and_share_of_the_limit(self):
        out = self.oort("bench-llm", STORYTELLER, *self.QUICK).out
        self.assertRegex(out.splitlines()[-1], r"\Aprefill_tps \d+\.\d decode_tps \d+\.\d\Z")
        self.assertRegex(out, r"memory gives \d+\.\d GB/s: at most \d+\.\d tokens/s, of which decode reaches \d+\.\d "
                              r"%: its model bandwidth utilization\n")
        self.assertRegex(out, r"multiply-adds give \d+\.\d GFLOP/s: at most \d+\.\d tokens/s, of which prefill reaches "
                              r"\d+\.\d %\n")

    def test_json(self):
        report = self.json("bench-llm", self.converted(), *self.QUICK)
        self.assertEqual((report["threads"], report["prompt_tokens"], report["new_tokens"]), (1, 20, 6))
        for name in ("prefill_tps", "decode_tps", "bandwidth", "flops"):
            self.assertGreater(report[name], 0)
        for step in ("prefill", "decode"):
            self.assertAlmostEqual(report[f"{step}_percent"], 100 * report[f"{step}_tps"] / report[f"{step}_limit_tps"],
                                   places=6)
        self.assertAlmostEqual(report["decode_limit_tps"], report["bandwidth"] / report["bytes_per_token"], places=3)
        # Two operations for each weight of the layers and token, attention, and the head once.
        layers = 3 * (128 * (128 + 64 + 64) + 128 * 128 + 3 * 128 * 256)
        least = 2 * (20 * layers + 3 * 128 * 20 * 21 + 128 * 1024)
        self.assertLess(report["prefill_limit_tps"], 20 * report["flops"] / least)
        self.assertEqual(len(report["decode_rounds"]), 2)
        # A token reads all weights but the embeddings, which are the head here, and some cache.
        self.assertGreater(report["bytes_per_token"], 2 * 918656)
        self.assertLess(report["bytes_per_token"], 2.2 * 918656)

    def test_requests_at_once(self):
        many = ["--batch", 3, "--prompt-tokens", 8, "--new-tokens", 24, "--rounds", 2, "--threads", 1]
        report = self.json("bench-llm", STORYTELLER, *many)
        self.assertEqual((report["batch"], len(report["end_to_end_rounds"])), (3, 2))
        for figure in ("decode_tps", "end_to_end_tps", "decode_limit_tps", "token_ms", "first_token_ms"):
            self.assertGreater(report[figure], 0, figure)
        self.assertRegex(self.oort("bench-llm", STORYTELLER, *many).out,
                         r"end_to_end_tps \d+\.\d decode_tps \d+\.\d\n\Z")
        many[1] = "1,3"
        self.assertEqual([row["batch"] for row in self.json("bench-llm", STORYTELLER, *many)["batches"]], [1, 3])
        lines = self.oort("bench-llm", STORYTELLER, *many).out.splitlines()
        self.assertEqual([line.split()[0] for line in lines[-2:]], ["1", "3"])
        self.assertRegex(lines[-1], r"^ +3 +\d+\.\d +\d+\.\d % +\d+\.\d +\d+\.\d\d +\d+\.\d\d$")
        self.fails("bench-llm", STORYTELLER, "--batch", 0, code=2, says="--batch")

    def test_how_tokens_are_picked(self):
        for batch in (1, 3):
            few = ["--batch", batch, "--prompt-tokens", 8, "--new-tokens", 12, "--rounds", 1, "--threads", 1]
            report = self.json("bench-llm", STORYTELLER, *few, "--regex", "[a-z ]*", "--temperature", 0.8)
            self.assertGreater(report["decode_tps"], 0)
            self.json("bench-llm", STORYTELLER, *few, "--logprobs", 5)
            self.fails("bench-llm", STORYTELLER, *few, "--choice", "yes", says="was complete with")

    def test_errors(self):
        for mode in ("--exact", "--fast"):
            self.assertRegex(self.oort("bench-llm", STORYTELLER, mode, *self.QUICK).out, r"decode_tps \d")
        self.fails("bench-llm", STORYTELLER, "--prompt-tokens", 0, code=2)
        self.fails("bench-llm", STORYTELLER, "--prompt-tokens", 600, says="600 tokens")
        self.fails("bench-llm", STORYTELLER, "--context", 8, code=2, says="--context")
        self.fails("bench-llm", self.dir / "none", says="none")
        self.fails("bench-llm", code=2, says="--random")
        self.fails("bench-llm", "--random", "gpt5", code=2)
        self.fails("bench-llm", STORYTELLER, "--random", "llama2-7b", code=2)
        self.fails("bench-llm", "--random", "llama2-7b", "--weights", "int3", code=2, says="--weights")


class PerplexityTest(LanguageCase):
    def test_adds_up_what_transformers_says(self):
        """The loss of a text beyond that of its beginning is that of the tokens which transformers picked."""
        row = RAW[0]
        count = 40
        whole, begun = row["prompt_ids"] + row["ids"][:count], row["prompt_ids"]
        text = row["prompt"] + self.feed(" ".join(map(str, row["ids"][:count])), "tokenize", STORYTELLER, "--decode")
        self.assertEqual(self.feed(text, "tokenize", STORYTELLER, "--ids").split(), list(map(str, whole)))
        losses = []
        for part in (text, row["prompt"]):
            report = self.json("perplexity", STORYTELLER, self.write("text.txt", part), *PARITY)
            losses.append(report["loss"] * report["tokens"])
        self.assertEqual(report["tokens"], len(begun) - 1)
        self.assertAlmostEqual(losses[0] - losses[1], -sum(row["logprobs"][:count]), delta=0.02)

    def test_beside_a_reference(self):
        text = self.write("text.txt", " ".join(row["text"] for row in ANSWERS[:3]))
        same = self.json("perplexity", STORYTELLER, text, "--reference", STORYTELLER, *PARITY)
        self.assertLess(abs(same["kl_divergence"]), 1e-6)
        self.assertEqual(same["top1_agreement_percent"], 100)
        for option in (["--kv", "int8"], ["--kv", "k6v4"], ["--weights", "int8"]):
            # They are for the model that is judged, and not for the reference.
            other = self.json("perplexity", STORYTELLER, text, "--reference", STORYTELLER, "--exact", *option)
            self.assertGreater(other["kl_divergence"], 0, option)
        rough = self.json("perplexity", self.converted("--weights", "int4"), text, "--reference", STORYTELLER,
                          "--threads", 1)
        self.assertGreater(rough["kl_divergence"], 1e-4)
        self.assertLess(rough["kl_divergence"], 0.5)
        self.assertGreater(rough["top1_agreement_percent"], 80)
        self.assertGreater(rough["perplexity"], 1)
        self.assertRegex(self.oort("perplexity", STORYTELLER, text, "--reference", STORYTELLER, *PARITY).out,
                         r"\Atokens +\d+\nperplexity +[\d.]+ ± [\d.]+\nKL divergence +-?0\.0\d+ ± [\d.]+ nats a "
                         r"token\nsame top token 100\.00 %\n\Z")

    def test_standard_input_and_errors(self):
        self.assertRegex(self.feed(RAW[0]["text"], "perplexity", STORYTELLER, "-", "--window", 16),
                         r"\Atokens +\d+\nperplexity +\d+\.\d{4} ± ")
        self.fails("perplexity", STORYTELLER, self.dir / "none.txt", says="none.txt': No such file or directory")
        self.fails("perplexity", STORYTELLER, self.dir, says="Is a directory")
        long = self.write("long.txt", "Once upon a time there was a bear. " * 100)
        self.fails("perplexity", STORYTELLER, long, "--window", 600, says="longer than the model's context of 512")
        self.fails("perplexity", STORYTELLER, self.write("empty.txt", ""), says="less than two tokens")
        self.fails("perplexity", STORYTELLER, self.write("t.txt", "a b c"), "--reference", TINY / "llama.gguf",
                   says="vocabulary")


class ProfileLanguageTest(LanguageCase):
    QUICK = ["--prompt-tokens", 9, "--new-tokens", 4, "--runs", 2, "--warmup", 1, "--threads", 1]

    def test_both_steps(self):
        out = self.oort("profile", STORYTELLER, *self.QUICK, "--by", "type").out
        self.assertRegex(out, r"prefill of 9 tokens  inputs \(9\)i32 \(9\)i32 \(1\)i32")
        self.assertRegex(out, r"decode behind 11 tokens  inputs \(1\)i32 \(1\)i32 \(1\)i32")
        self.assertEqual(len([line for line in out.splitlines() if line.startswith("oort.PagedAttention ")]), 2)
        self.assertRegex(self.oort("profile", self.converted(), *self.QUICK, "--by", "module").out,
                         r"\n    model\.layers\.1 +\d")

    def test_json_and_files(self):
        page, trace = self.dir / "page.html", self.dir / "trace.json"
        report = self.json("profile", STORYTELLER, *self.QUICK, "--html", page, "--trace", trace, "--svg",
                           self.dir / "svg")
        self.assertEqual((report["prompt_tokens"], report["new_tokens"]), (9, 4))
        for step, rows in (("prefill", 9), ("decode", 1)):
            head, pick = report[step]["operators"][-2:]
            self.assertEqual((head["name"], head["outputs"]), ("lm_head", ["(1,1024)f32"]))
            self.assertEqual(head["share"], 0)  # nobody reads the logits: they are not computed
            self.assertEqual((pick["type"], pick["outputs"]), ("oort.QuantizedArgmax", ["(1)i32"]))
            attention = next(op for op in report[step]["operators"] if op["type"] == "oort.PagedAttention")
            self.assertEqual(attention["outputs"], [f"({rows},128)f32"])
            seen = {"prefill": 9, "decode": 12}[step]
            config = json.loads((STORYTELLER / "config.json").read_text())
            width = config["num_key_value_heads"] * config["hidden_size"] // config["num_attention_heads"]
            arguments = 4 * rows * (2 * 128 + 2 * width)  # query and result, keys and values
            self.assertEqual(attention["bytes"], arguments + 2 * 2 * seen * width)  # and the cache
            self.assertAlmostEqual(sum(op["share"] for op in report[step]["operators"]), 1, places=6)
            self.assertIn("<svg", (self.dir / f"page.{step}.html").read_text())
            json.loads((self.dir / f"trace.{step}.json").read_text())
            self.assertTrue((self.dir / "svg" / step / "roofline.svg").exists())
        self.assertFalse(page.exists())

    def test_errors(self):
        self.fails("profile", STORYTELLER, "--prompt-tokens", 600, code=2, says="context")
        self.fails("profile", STORYTELLER, "--shape", "in0=1", code=2, says="--prompt-tokens")
        self.fails("profile", SOURCE / "models" / "digits" / "digits.pnnx.param", "--prompt-tokens", 5,
                   says="no language model")


class LimitsOfModelTest(LanguageCase):
    def test_the_storyteller(self):
        report = self.json("limits", STORYTELLER, "--machine", "4090")
        self.assertEqual(report["parameters"]["stored"], 918656)

    def test_gguf_says_what_the_folder_says(self):
        for name in ("llama", "qwen2", "gemma2"):
            of_file, of_folder = (self.json("limits", TINY / path, "--machine", "4090")
                                  for path in (f"{name}.gguf", name))
            self.assertEqual(of_file["parameters"], of_folder["parameters"], name)
            self.assertEqual(of_file["machines"], of_folder["machines"], name)


class DoctorLanguageTest(LanguageCase):
    def test_healthy(self):
        self.assertRegex(self.oort("doctor", STORYTELLER).out,
                         r"\A\S+: a language model, llama of 4 layers, weights [^\n]+\nit would run\n\Z")
        report = self.json("doctor", TINY / "qwen2.gguf")
        self.assertEqual((report["runs"], report["problems"]), (True, []))
        self.assertEqual(report["language_model"]["family"], "qwen2")

    def test_what_is_missing_or_broken(self):
        folder = self.storyteller_with("{% for m in messages %}")
        self.assertRegex(self.oort("doctor", folder).out, r"note  chat template default is unusable: .*line 1.*\nit "
                                                          r"would run\n\Z")
        self.assertIn("no chat template", " ".join(self.json("doctor", TINY / "llama2c_v1.bin")["notes"]))
        whole = (TINY / "llama.gguf").read_bytes()
        cut = self.write("cut.gguf", whole[: len(whole) // 2])
        self.assertRegex(self.oort("doctor", cut, code=1).out,
                         r"\n +1x  \S.*\nit would not run: 1 problem in 1 place\n\Z")
        self.assertEqual(len(self.json("doctor", cut, code=1)["problems"]), 1)


if __name__ == "__main__":
    unittest.main()
