#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""oort batch from outside: both kinds of lines, bad ones, and runs that are killed at any moment."""
import base64
import json
import math
import random
import signal
import struct
import subprocess
import time
import unittest

from cli_test import OORT, SOURCE, read_npy
from language_test import CHATS, PARITY, STORYTELLER, LanguageCase

ENCODER = SOURCE / "test" / "encoders" / "tiny_bert"


def request(custom_id, url="/v1/chat/completions", **body):
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


def chat(custom_id, content, **fields):
    return request(custom_id, messages=[{"role": "user", "content": content}], **fields)


class BatchTest(LanguageCase):
    def lines(self, *rows):
        path = self.dir / "in.jsonl"
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        return path

    def answers(self, path):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        by_line = {row["line"]: row for row in rows}
        self.assertEqual(len(by_line), len(rows), "a line was answered twice")
        return by_line

    def batch(self, *rows, options=()):
        output = self.dir / "out.jsonl"
        summary = self.json("batch", STORYTELLER, "--input", self.lines(*rows), "--output", output, *options)
        return summary, self.answers(output)

    def test_answers_as_transformers_does(self):
        rows = [chat(f"story {i}", row["messages"][0]["content"], temperature=0, max_tokens=200)
                for i, row in enumerate(CHATS)]
        summary, answers = self.batch(*rows, options=PARITY)
        self.assertEqual((summary["answered"], summary["errors"], summary["skipped"]), (len(CHATS), 0, 0))
        self.assertEqual(summary["completion_tokens"], sum(len(row["ids"]) for row in CHATS))
        self.assertGreater(summary["tokens_per_second"], 0)
        for i, row in enumerate(CHATS):
            answer = answers[i + 1]
            self.assertEqual(answer["custom_id"], f"story {i}")
            self.assertIsNone(answer["error"])
            self.assertEqual(answer["response"]["status_code"], 200)
            body = answer["response"]["body"]
            self.assertEqual(body["choices"][0]["message"]["content"], row["text"])
            self.assertEqual(body["usage"]["prompt_tokens"], len(row["prompt_ids"]))
            self.assertEqual(body["model"], "storyteller")

    def test_plain_prompts_are_answered_as_generate_does(self):
        ask = ["--max-tokens", 20, "--stop", " a", *PARITY]
        _, answers = self.batch({"prompt": "Tell me a story."}, '"Tell me a story."', options=ask)
        text = self.json("generate", STORYTELLER, "--prompt", "Tell me a story.", *ask)["text"]
        for number in (1, 2):
            self.assertEqual(answers[number]["text"], text)
            self.assertIsNone(answers[number]["error"])
            self.assertEqual(answers[number]["finish_reason"], "stop")
        (self.dir / "out.jsonl").unlink()
        _, answers = self.batch('"Once"', options=["--raw", *ask])
        self.assertEqual(answers[1]["text"], self.json("generate", STORYTELLER, "--raw", "--prompt", "Once",
                                                       *ask)["text"])

    def test_draws_of_plain_prompts_differ_by_line_and_come_again(self):
        ask = ["--max-tokens", 20, "--temperature", 1, "--seed", 5, "--reproducible", *PARITY]
        _, first = self.batch(*['"Tell me a story."'] * 3, options=ask)
        (self.dir / "out.jsonl").unlink()
        _, second = self.batch(*['"Tell me a story."'] * 3, options=ask)
        self.assertEqual(first, second)
        self.assertEqual(len({row["text"] for row in first.values()}), 3)

    def test_bad_lines_are_lines_of_the_output(self):
        summary, answers = self.batch(
            chat("good", "Hi", max_tokens=2), "no json", "[1]", "", {"promt": "x"}, chat("good", "Hi", max_tokens=2),
            request("pictures", "/v1/images/generations"), chat("loud", "Hi", volume=11), chat("long", "x " * 3000),
            request("vectors", "/v1/embeddings", input="a"), chat("last", "Hi", max_tokens=2),
            chat("stream", "Hi", stream=True), {"custom_id": "x", "url": "/v1/completions", "body": {"prompt": "a"}},
            "[" * 100 + "]" * 100, '"' + "x" * (5 << 20) + '"')  # fmt: skip
        self.assertEqual((summary["answered"], summary["errors"], summary["skipped"]), (2, 12, 1))
        for number, says in {2: "no valid JSON", 3: "must be a JSON object", 5: "'promt' is not known",
                             6: "same custom_id", 7: "must be /v1/chat/completions", 12: "no place in a batch",
                             13: '"POST"', 14: "nested too deeply", 15: "longer than a request"}.items():  # fmt: skip
            self.assertIn(says, answers[number]["error"]["message"])
            self.assertIsNone(answers[number].get("response"))
        for number, says in {8: "volume", 9: "room for 512", 10: "need an encoder"}.items():
            self.assertEqual(answers[number]["response"]["status_code"], 400)
            self.assertIn(says, answers[number]["response"]["body"]["error"]["message"])
        self.assertEqual(answers[9]["response"]["body"]["error"]["code"], "context_length_exceeded")
        self.assertEqual(answers[11]["response"]["status_code"], 200)

    def test_a_file_of_which_nothing_was_answered_is_an_error(self):
        output = self.dir / "none.jsonl"
        source = self.lines("no json", "[1]", "", chat("loud", "Hi", volume=11))
        command = ["batch", STORYTELLER, "--input", source, "--output", output]
        for errors, skipped, skipped_errors in ((3, 1, 0), (0, 4, 3)):  # a run that goes on fails like the first
            done = self.oort(*command, "--json", code=1)
            self.assertRegex(done.err, r"\Aoort: no line of [^\n]+, 3 have an error: see [^\n]+\n\Z")
            report = json.loads(done.out)
            self.assertEqual((report["answered"], report["errors"]), (0, errors))
            self.assertEqual((report["skipped"], report["skipped_errors"]), (skipped, skipped_errors))
        done = self.oort(*command, code=1)
        self.assertIn("0 lines answered, 0 with an error, 4 skipped (3 with an error); ", done.out)
        self.assertEqual(len(output.read_text().splitlines()), 3)

    def test_answers_of_an_earlier_run_count(self):
        good, output = chat("good", "Hi", max_tokens=2), self.dir / "out.jsonl"
        for first in (good, '"Hi"'):
            output.unlink(missing_ok=True)
            self.batch(first, options=["--max-tokens", 2])
            summary, _ = self.batch(first, "no json")  # ends well, though all that it looked at was bad
            self.assertEqual((summary["answered"], summary["errors"], summary["skipped"]), (0, 1, 1))
            summary, _ = self.batch(first, "no json")
            self.assertEqual((summary["errors"], summary["skipped"], summary["skipped_errors"]), (0, 2, 1))

    def test_goes_on_where_it_was(self):
        rows = [chat(f"id{i}", f"Number {i}.", temperature=0, max_tokens=3) for i in range(6)]
        _, whole = self.batch(*rows, options=PARITY)
        output = self.dir / "out.jsonl"
        text = output.read_bytes()
        ends = [i + 1 for i, byte in enumerate(text) if byte == ord("\n")]
        for kept in (0, 1, ends[0] - 1, ends[0], ends[2] + 7, len(text) - 1):
            output.write_bytes(text[:kept])
            summary, answers = self.batch(*rows, options=PARITY)
            self.assertEqual(summary["skipped"], sum(end <= kept for end in ends))
            self.assertEqual(summary["answered"], 6 - summary["skipped"])
            self.assertEqual({n: a["response"]["body"]["choices"] for n, a in answers.items()},
                             {n: a["response"]["body"]["choices"] for n, a in whole.items()})  # fmt: skip
        # Another input: its answers would be mixed with these.
        self.fails("batch", STORYTELLER, "--input", self.lines(chat("other", "Hi")), "--output", output,
                   says="the input has changed")
        output.write_text("a poem\n")
        self.fails("batch", STORYTELLER, "--input", self.lines(*rows), "--output", output,
                   says="something else than answers")
        self.assertEqual(output.read_text(), "a poem\n")

    def test_survives_being_killed_at_any_moment(self):
        rows = [chat(f"id{i}", f"Tell me story {i}.", seed=i, max_tokens=1 + i % 40) for i in range(60)]
        source = self.lines(*rows)
        whole, output = self.dir / "whole.jsonl", self.dir / "killed.jsonl"
        options = ["--requests", "7", "--reproducible", *PARITY]
        command = [OORT, "batch", STORYTELLER, "--input", source, *options, "--output"]
        self.oort("batch", STORYTELLER, "--input", source, *options, "--output", whole)
        dice = random.Random(7)
        kills = 0
        for _ in range(100):
            size = output.stat().st_size if output.exists() else 0
            running = subprocess.Popen([*map(str, command), output], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            # Some before the first answer, others behind a few.
            more = dice.choice([0, 1, 2000, 4000])
            while running.poll() is None and more > 0 and not (output.exists()
                                                               and output.stat().st_size >= size + more):
                time.sleep(0.001)
            time.sleep(dice.uniform(0, 0.05))
            if running.poll() is None:
                running.send_signal(signal.SIGKILL)
                kills += 1
            if running.wait() == 0:
                break
        self.assertGreater(kills, 0)
        self.oort("batch", STORYTELLER, "--input", source, *options, "--output", output)
        expected, got = self.answers(whole), self.answers(output)
        self.assertEqual(got.keys(), expected.keys())
        for number, answer in expected.items():
            self.assertEqual(got[number]["custom_id"], answer["custom_id"])
            self.assertEqual(got[number]["response"]["body"]["choices"], answer["response"]["body"]["choices"])

    def test_ctrl_c_keeps_what_is_answered(self):
        rows = [chat(f"id{i}", "Tell me a story.", max_tokens=300, ignore_eos=True) for i in range(200)]
        output = self.dir / "out.jsonl"
        command = [OORT, "batch", STORYTELLER, "--input", self.lines(*rows), "--output", output, "--requests", 4]
        running = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while running.poll() is None and not (output.exists() and output.stat().st_size > 0):
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        self.assertEqual(running.wait(timeout=60), 130)
        self.assertTrue(0 < len(self.answers(output)) < 200)

    def test_one_run_at_a_time_writes_a_file(self):
        rows = [chat(f"id{i}", "Tell me a story.", max_tokens=300, ignore_eos=True) for i in range(200)]
        source, output = self.lines(*rows), self.dir / "out.jsonl"
        command = [OORT, "batch", STORYTELLER, "--input", source, "--output", output, "--requests", 4]
        running = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while running.poll() is None and not (output.exists() and output.stat().st_size > 0):
                time.sleep(0.01)
            self.fails("batch", STORYTELLER, "--input", source, "--output", output, says="another run writes to")
        finally:
            running.kill()
            running.wait()

    def test_wrong_usage(self):
        source = self.lines('"a"')
        self.fails("batch", STORYTELLER, "--input", source, code=2, says="--output")
        self.fails("batch", STORYTELLER, "--input", self.dir / "none", "--output", self.dir / "o", says="No such file")
        self.fails("batch", STORYTELLER, "--input", self.dir, "--output", self.dir / "o", says="it is a folder")
        self.fails("batch", STORYTELLER, "--input", source, "--output", self.dir / "no" / "o", says="No such file")
        self.fails("batch", STORYTELLER, "--input", source, "--output", self.dir / "o", "--raw", "--system", "x",
                   code=2, says="--system")
        report = self.feed('"Hi"\n', "batch", STORYTELLER, "--input", "-", "--output", self.dir / "o", "--max-tokens",
                           2)
        self.assertIn("1 lines answered, 0 with an error", report)


class EmbedTest(LanguageCase):
    """The tiny BERT of test/encoders, whose answers are those of transformers."""

    def setUp(self):
        super().setUp()
        self.rows = json.loads((ENCODER / "answers.json").read_text())
        self.short = [row for row in self.rows if 0 < len(row["text"]) < 100 and "light light" not in row["text"]]

    def close(self, got, row, key="mean", normalized=True):
        wanted = row[key]
        length = math.sqrt(sum(x * x for x in wanted)) if normalized else 1
        self.assertEqual(len(got), len(wanted))
        for a, b in zip(got, wanted):
            self.assertAlmostEqual(a, b / length, delta=1e-4)

    def test_vectors_as_npy_and_jsonl(self):
        texts = self.dir / "texts.txt"
        texts.write_text("".join(row["text"].strip() + "\n" for row in self.short))
        summary = self.json("embed", ENCODER, "--input", texts, "--output", self.dir / "x.npy")
        self.assertEqual((summary["texts"], summary["dimensions"], summary["truncated"]), (len(self.short), 32, 0))
        self.assertEqual(summary["tokens"], sum(len(row["ids"]) for row in self.short))
        numbers = read_npy(self.dir / "x.npy")
        for i, row in enumerate(self.short):
            self.close(numbers[32 * i : 32 * i + 32], row)
        lines = self.dir / "texts.jsonl"
        lines.write_text("".join(json.dumps({"text": row["text"]} if i % 2 else row["text"]) + "\n"
                                 for i, row in enumerate(self.rows)))
        out = self.dir / "x.jsonl"
        done = self.oort("embed", ENCODER, "--input", lines, "--output", out, "--pooling", "cls", "--no-normalize")
        self.assertIn("1 texts were cut to 24 tokens", done.out)
        for line, row in zip(out.read_text().splitlines(), self.rows, strict=True):
            self.close(json.loads(line), row, "cls", normalized=False)

    def test_batches(self):
        source, output = self.dir / "in.jsonl", self.dir / "out.jsonl"
        texts = [row["text"] for row in self.short]
        rows = [request("all", "/v1/embeddings", input=texts, model="x"),
                request("base64", "/v1/embeddings", input=texts[0], encoding_format="base64"),
                request("ids", "/v1/embeddings", input=self.short[1]["ids"]), {"prompt": texts[2]}, chat("chat", "Hi"),
                request("long", "/v1/embeddings", input="light " * 40), request("empty", "/v1/embeddings", input="")]
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
        summary = self.json("batch", ENCODER, "--input", source, "--output", output)
        self.assertEqual((summary["answered"], summary["errors"]), (4, 3))
        answers = {row["line"]: row for row in map(json.loads, output.read_text().splitlines())}
        body = answers[1]["response"]["body"]
        for entry, row in zip(body["data"], self.short, strict=True):
            self.close(entry["embedding"], row)
        self.assertEqual(body["usage"]["prompt_tokens"], sum(len(row["ids"]) for row in self.short))
        self.assertEqual(body["model"], "tiny_bert")
        coded = base64.b64decode(answers[2]["response"]["body"]["data"][0]["embedding"])
        self.close(struct.unpack("<32f", coded), self.short[0])
        self.close(answers[3]["response"]["body"]["data"][0]["embedding"], self.short[1])
        self.close(answers[4]["embedding"], self.short[2])
        for number, says in {5: "is an encoder", 6: "more than the 24 tokens", 7: "not empty"}.items():
            self.assertEqual(answers[number]["response"]["status_code"], 400)
            self.assertIn(says, answers[number]["response"]["body"]["error"]["message"])

    def test_wrong_usage(self):
        texts = self.dir / "texts.jsonl"
        texts.write_text('"a"\n[1]\n')
        self.fails("embed", ENCODER, "--input", texts, "--output", self.dir / "x.txt", code=2, says=".npy or a .jsonl")
        self.fails("embed", ENCODER, "--input", texts, "--output", self.dir / "x.npy", says="line 2: expected a string")
        self.assertFalse((self.dir / "x.npy").exists())
        self.fails("embed", STORYTELLER, "--input", texts, "--output", self.dir / "x.npy", says="model.pnnx.param")
        self.fails("embed", self.dir, "--input", texts, "--output", self.dir / "x.npy", says="tokenizer.json")


if __name__ == "__main__":
    unittest.main()
