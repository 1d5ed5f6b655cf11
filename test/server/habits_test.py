#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What programs that were written for other servers, llama.cpp's above all, rely on. Python's own HTTP alone."""

import base64
import json
import math
import re
import struct
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

from server import ENCODER, SECONDS, Server, each_row, with_rows
from watch import metric, wait_for

TALK = [{"role": "user", "content": "Tell me a story about a fox."}]


def ask(url, path, body=None, headers=(), method=None):
    """Status, head and body of an answer; JSON is read."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url + path, data, {"Content-Type": "application/json", **dict(headers)}, method=method
    )
    try:
        answer = urllib.request.urlopen(request, timeout=SECONDS)
    except urllib.error.HTTPError as error:
        answer = error
    text = answer.read().decode()
    is_json = answer.headers.get("Content-Type", "").startswith("application/json")
    return answer.status, answer.headers, json.loads(text) if is_json else text


def events(text):
    lines = [line[6:] for line in text.split("\n\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


class OneServer(unittest.TestCase):
    arguments = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--quiet", *cls.arguments).__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def ask(self, path, body=None, **options):
        return ask(self.server.url, path, body, **options)

    def answer(self, path, body):
        status, _, answer = self.ask(path, body)
        self.assertEqual(status, 200, answer)
        return answer

    def chat(self, **fields):
        return self.answer("/v1/chat/completions", {"messages": TALK, "max_tokens": 12, "temperature": 0, **fields})


@with_rows
class ChatTest(OneServer):
    arguments = ("--encoder", f"bert={ENCODER}")

    @each_row(
        [
            ("/chat/completions", {"messages": TALK, "max_tokens": 2}),
            ("/completions", {"prompt": "Once", "max_tokens": 2}),
            ("/embeddings", {"model": "bert", "input": "Once"}),
            ("/responses", {"input": "Hi", "max_output_tokens": 2}),
            ("/models", None),
            ("/models/", None),
        ]
    )
    def test_a_base_url_without_the_version(self, path, body):
        self.assertEqual(self.ask(path, body)[0], 200)

    def test_a_beginning_that_was_read_before_is_told(self):
        talk = [
            *TALK,
            {"role": "assistant", "content": "Once upon a time there was a fox."},
            {"role": "user", "content": "Go on."},
        ]
        first = self.chat(messages=talk)["usage"]
        again = self.chat(messages=talk)["usage"]
        self.assertGreater(again["prompt_tokens_details"]["cached_tokens"], 0)
        self.assertLess(again["prompt_tokens_details"]["cached_tokens"], again["prompt_tokens"])
        self.assertEqual(first["prompt_tokens"], again["prompt_tokens"])

    def test_the_template_is_what_a_chat_reads(self):
        text = self.answer("/apply-template", {"messages": TALK})["prompt"]
        for message in TALK:
            self.assertIn(message["content"], text)
        tokens = self.answer("/tokenize", {"messages": TALK})["tokens"]
        self.assertEqual(len(tokens), self.chat()["usage"]["prompt_tokens"])
        counted = self.answer("/v1/messages/count_tokens", {"model": "storyteller", "messages": TALK})
        self.assertEqual(counted, {"input_tokens": len(tokens)})

    @each_row(
        [
            ("a constant", {"const": "42"}, r'"42"'),
            ("one of a list", {"enum": ["red", 7]}, r'"red"|7'),
            (
                "two words",
                {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2, "maxItems": 2},
                r'\[\s*"[ab]",\s*"[ab]"\s*\]',
            ),
            ("a number", {"type": "integer", "minimum": 10, "maximum": 99}, r"\d\d"),
            (
                "an object",
                {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]},
                r'\{\s*"yes":\s*(true|false)\s*\}',
            ),
        ]
    )
    def test_answers_keep_to_a_schema(self, _, schema, pattern):
        # Sampled at will: the form does not depend on what the model likes.
        for form in (
            {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
            {"type": "json_object", "schema": schema},
        ):
            answer = self.chat(response_format=form, temperature=1.5, max_tokens=60)["choices"][0]
            if answer["finish_reason"] == "stop":
                self.assertRegex(answer["message"]["content"], rf"\A(?:{pattern})\Z")

    def test_a_grammar(self):
        answer = self.chat(grammar='root ::= ("a" | "b"){3}', max_tokens=20, temperature=1.5)
        self.assertRegex(answer["choices"][0]["message"]["content"], r"\A[ab]{3}\Z")

    @each_row(
        [
            ("a grammar without a root", {"grammar": 'start ::= "a"'}),
            ("a grammar that is none", {"grammar": "root ::= ((("}),
            ("a schema of no known type", {"response_format": {"type": "json_object", "schema": {"type": "colour"}}}),
            ("a schema that is a number", {"response_format": {"type": "json_object", "schema": 42}}),
            ("a format that is none", {"response_format": {"type": "sound"}}),
            ("no messages", {"messages": []}),
            ("messages that are a text", {"messages": "Hi"}),
            ("a message that is a number", {"messages": [42]}),
            ("a message without a role", {"messages": [{"content": "Hi"}]}),
            ("a role that is none", {"messages": [{"role": "king", "content": "Hi"}]}),
            ("a content that is a number", {"messages": [{"role": "user", "content": 42}]}),
            ("a bias of a word", {"logit_bias": {"fox": 1}}),
            ("more choices than there may be", {"n": 1000000}),
        ]
    )
    def test_what_is_wrong_is_refused(self, _, fields):
        status, _, answer = self.ask("/v1/chat/completions", {"messages": TALK, **fields})
        self.assertEqual(status, 400)
        self.assertEqual(set(answer["error"]), {"message", "type", "param", "code"})
        self.assertEqual(self.ask("/health")[0], 200)

    @each_row([("whole", False), ("as a stream", True)])
    def test_a_talk_that_is_too_long(self, _, stream):
        talk = [{"role": "user", "content": "Once upon a time. " * 400}]
        status, head, answer = self.ask("/v1/chat/completions", {"messages": talk, "stream": stream})
        self.assertEqual((status, answer["error"]["code"]), (400, "context_length_exceeded"))
        self.assertRegex(answer["error"]["message"], r"\d{3,}.*512")
        self.assertTrue(head["Content-Type"].startswith("application/json"))

    def test_the_answer_ends_where_the_context_does(self):
        answer = self.answer("/v1/completions", {"prompt": "Once", "max_tokens": 100000, "ignore_eos": True})
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        self.assertEqual(answer["usage"]["total_tokens"], 513)  # the last one is told, and not read

    def test_several_choices_of_a_stream_are_told_apart(self):
        text = self.answer(
            "/v1/chat/completions",
            {"messages": TALK, "n": 3, "stream": True, "max_tokens": 4, "seed": 5, "temperature": 1},
        )
        whole = self.chat(n=3, max_tokens=4, seed=5, temperature=1)
        joined = {}
        for event in events(text):
            for choice in event["choices"]:
                joined[choice["index"]] = joined.get(choice["index"], "") + choice["delta"].get("content", "")
        self.assertEqual(joined, {choice["index"]: choice["message"]["content"] for choice in whole["choices"]})

    def test_neighbours_change_nothing(self):
        """Each of several at once gets what it gets alone, whatever the lengths beside it."""
        bodies = [
            {"prompt": "Once" + " upon" * i, "max_tokens": 5 + 3 * i, "seed": i, "temperature": 1} for i in range(8)
        ]
        alone = [self.answer("/v1/completions", body)["choices"][0]["text"] for body in bodies]
        for together in (2, 8):
            got = [None] * 8

            def work(first):
                for i in range(first, 8, together):
                    got[i] = self.answer("/v1/completions", bodies[i])["choices"][0]["text"]

            threads = [threading.Thread(target=work, args=(i,)) for i in range(together)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(got, alone)

    def test_text_and_its_tokens_are_the_same_prompt(self):
        ids = self.answer("/tokenize", {"content": "Once upon a time"})["tokens"]
        one, other = (
            self.answer("/v1/completions", {"prompt": prompt, "temperature": 0, "max_tokens": 8})
            for prompt in ("Once upon a time", ids)
        )
        self.assertEqual(one["choices"][0]["text"], other["choices"][0]["text"])
        self.assertEqual(one["usage"]["prompt_tokens"], len(ids))

    def test_tokens_and_back(self):
        text = "What is the capital of Norway? Oslo, søta bror!"
        plain = self.answer("/tokenize", {"content": text, "add_special": False, "with_pieces": True})
        begun = self.answer("/tokenize", {"content": text, "add_special": True})
        self.assertEqual(begun["tokens"][-len(plain["tokens"]) :], plain["tokens"])
        self.assertEqual(len(plain["token_strs"]), plain["count"])
        self.assertEqual(self.answer("/detokenize", {"tokens": plain["tokens"]})["content"], text)

    def test_metrics_count_what_was_answered(self):
        names = ("vllm:generation_tokens_total", "vllm:prompt_tokens_total", "vllm:request_success_total")
        before = [metric(self.server.url, name) for name in names]
        usage = self.answer("/v1/completions", {"prompt": "Once", "max_tokens": 9, "ignore_eos": True})["usage"]
        wanted = [before[0] + 9, before[1] + usage["prompt_tokens"], before[2] + 1]
        wait_for(lambda: [metric(self.server.url, name) for name in names] == wanted)
        status, head, text = self.ask("/metrics")
        self.assertEqual(status, 200)
        self.assertTrue(head["Content-Type"].startswith("text/plain; version=0.0.4"))
        for line in text.splitlines():
            self.assertRegex(line, r"\A(# (HELP|TYPE) [a-z0-9_:]+ .+|[a-z0-9_:]+(\{[^{}]*\})? [-+0-9.einfNa]+)\Z")

    def test_embeddings_repeat_themselves(self):
        def embed(given, **fields):
            return self.answer("/v1/embeddings", {"model": "bert", "input": given, **fields})

        several = embed(["a fox", "a house", "a fox"])
        vectors = [entry["embedding"] for entry in several["data"]]
        self.assertEqual([entry["index"] for entry in several["data"]], [0, 1, 2])
        self.assertEqual(vectors[0], vectors[2])
        self.assertNotEqual(vectors[0], vectors[1])
        for vector in vectors:
            self.assertAlmostEqual(math.hypot(*vector), 1, places=3)
        packed = base64.b64decode(embed("a fox", encoding_format="base64")["data"][0]["embedding"])
        for value, wanted in zip(struct.unpack(f"<{len(packed) // 4}f", packed), vectors[0]):
            self.assertAlmostEqual(value, wanted, places=5)
        self.assertEqual(several["usage"]["prompt_tokens"], several["usage"]["total_tokens"])
        for wrong in ([], [[]], {"text": "a"}, None, "word " * 5000):
            self.assertEqual(self.ask("/v1/embeddings", {"model": "bert", "input": wrong})[0], 400)

    def test_messages_of_anthropic_in_parts(self):
        text = self.answer("/v1/messages", {"model": "storyteller", "messages": TALK, "max_tokens": 6, "stream": True})
        kinds = re.findall(r"^event: (\w+)$", text, re.MULTILINE)
        self.assertEqual((kinds[0], kinds[-1]), ("message_start", "message_stop"))
        blocks = [
            event["index"]
            for event in events(re.sub(r"^event: .*\n", "", text, flags=re.MULTILINE))
            if "index" in event
        ]
        self.assertEqual(set(blocks), {0})


@with_rows
class SecurityTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        keys = folder.name + "/keys"
        with open(keys, "w") as file:
            file.write("sesame\n")
        arguments = ("--quiet", "--api-key-file", keys, "--cors-origin", "https://example.org", "--no-page")
        cls.server = Server(*arguments).__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    @each_row(
        [
            ("/health", 200),
            ("/ready", 200),
            ("/v1/models", 401),
            ("/models", 401),
            ("/metrics", 401),
            ("/api/tags", 401),
            ("/", 404),
        ]
    )
    def test_without_a_key(self, path, status):
        self.assertEqual(ask(self.server.url, path)[0], status)

    @each_row(
        [
            ("none", {}, 401),
            ("empty", {"Authorization": ""}, 401),
            ("another", {"Authorization": "Bearer simsim"}, 401),
            ("a part", {"Authorization": "Bearer sesam"}, 401),
            ("without its kind", {"Authorization": "sesame"}, 401),
            ("right", {"Authorization": "Bearer sesame"}, 200),
            ("Anthropic's field", {"X-Api-Key": "sesame"}, 200),
        ]
    )
    def test_keys(self, _, headers, status):
        got, head, answer = ask(self.server.url, "/v1/completions", {"prompt": "Once", "max_tokens": 1}, headers)
        self.assertEqual(got, status)
        if status == 401:
            self.assertEqual(answer["error"]["code"], "invalid_api_key")
            self.assertNotIn("simsim", json.dumps(answer))

    @each_row([("https://example.org", True), ("https://example.com", False), ("null", False)])
    def test_pages_of_others(self, origin, welcome):
        wanted = {
            "Origin": origin,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization, content-type",
        }
        _, head, _ = ask(self.server.url, "/v1/chat/completions", headers=wanted, method="OPTIONS")
        self.assertEqual(head.get("Access-Control-Allow-Origin"), origin if welcome else None)
        if welcome:
            self.assertIn("POST", head["Access-Control-Allow-Methods"])
            self.assertIn("authorization", head["Access-Control-Allow-Headers"].lower())


del OneServer  # has no tests of its own

if __name__ == "__main__":
    unittest.main()
