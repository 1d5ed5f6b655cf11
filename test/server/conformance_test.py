#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`oort serve` with the official client of OpenAI. Ends with 77, which ctest takes for skipped, where the client of
test/server/requirements.txt is not installed."""
import json
import math
import sys
import tempfile
import threading
import unittest
import urllib.request

from server import SECONDS, Server, each_row, go_on_in, with_rows

go_on_in("openai")
try:
    import openai
except ImportError:
    print("skipped: pip install -r test/server/requirements.txt", file=sys.stderr)
    sys.exit(77)

ASK = [{"role": "user", "content": "Tell me a story about a fox."}]


@with_rows
class ConformanceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server("--quiet", "--alias", "gpt-test"))
        cls.client = openai.OpenAI(
            base_url=cls.server.url + "/v1", api_key="none", max_retries=0, timeout=SECONDS
        )

    def chat(self, **options):
        options = {"model": "storyteller", "messages": ASK, "max_tokens": 20, "temperature": 0, **options}
        return self.client.chat.completions.create(**options)

    def complete(self, **options):
        options = {"model": "storyteller", "prompt": "Once upon a time", "max_tokens": 12, "temperature": 0, **options}
        return self.client.completions.create(**options)

    def tokenize(self, text, **options):
        body = json.dumps({"prompt": text, **options}).encode()
        request = urllib.request.Request(self.server.url + "/tokenize", body, {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=SECONDS))["tokens"]

    def refused(self, call, kind, code=None, param=None):
        with self.assertRaises(kind) as caught:
            call()
        if code:
            self.assertEqual(caught.exception.code, code)
        if param:
            self.assertEqual(caught.exception.param, param)
        return caught.exception

    # Models.
    def test_models_are_listed(self):
        names = [model.id for model in self.client.models.list()]
        self.assertEqual(names, ["storyteller", "gpt-test"])

    def test_one_model(self):
        model = self.client.models.retrieve("storyteller")
        self.assertEqual((model.id, model.object), ("storyteller", "model"))
        self.assertGreater(model.created, 0)

    def test_another_model_is_not_found(self):
        self.refused(lambda: self.client.models.retrieve("gpt-4"), openai.NotFoundError, "model_not_found")
        self.refused(lambda: self.chat(model="gpt-4"), openai.NotFoundError, "model_not_found", "model")
        self.refused(lambda: self.complete(model="gpt-4"), openai.NotFoundError, "model_not_found", "model")

    def test_an_alias_is_as_good(self):
        self.assertTrue(self.chat(model="gpt-test").choices[0].message.content)

    # Chats.
    def test_a_chat(self):
        answer = self.chat()
        choice = answer.choices[0]
        self.assertEqual(answer.object, "chat.completion")
        self.assertTrue(answer.id.startswith("chatcmpl-"))
        self.assertTrue(answer.system_fingerprint)
        self.assertEqual((choice.index, choice.message.role, choice.finish_reason), (0, "assistant", "length"))
        self.assertTrue(choice.message.content)
        self.assertIsNone(choice.logprobs)
        self.assertEqual(answer.usage.completion_tokens, 20)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + 20)

    def test_a_chat_in_parts(self):
        chunks = list(self.chat(stream=True))
        self.assertEqual({chunk.object for chunk in chunks}, {"chat.completion.chunk"})
        self.assertEqual(len({chunk.id for chunk in chunks}), 1)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual([c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason], ["length"])
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        self.assertEqual(text, self.chat().choices[0].message.content)

    def test_usage_of_a_stream(self):
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, 20)
        self.assertTrue(all(chunk.usage is None for chunk in chunks[:-1]))

    def test_stream_options_without_a_stream(self):
        self.refused(
            lambda: self.chat(stream_options={"include_usage": True}), openai.BadRequestError, param="stream_options"
        )

    def test_every_length_streams_what_it_says(self):
        for tokens in range(1, 25, 4):
            whole = self.chat(max_tokens=tokens)
            parts = list(self.chat(max_tokens=tokens, stream=True))
            text = "".join(chunk.choices[0].delta.content or "" for chunk in parts)
            self.assertEqual(text, whole.choices[0].message.content)
            self.assertEqual(whole.usage.completion_tokens, tokens)

    def test_max_completion_tokens_wins(self):
        self.assertEqual(self.chat(max_tokens=30, max_completion_tokens=5).usage.completion_tokens, 5)

    def test_an_answer_goes_on_with_the_last_message(self):
        extra = {"continue_final_message": True, "ignore_eos": True, "return_token_ids": True}
        talk = ASK + [{"role": "assistant", "content": "Once upon a time"}]
        on = self.chat(messages=talk, extra_body=extra)
        body = {"messages": talk, "continue_final_message": True}
        request = urllib.request.Request(
            self.server.url + "/apply-template", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        prompt = json.load(urllib.request.urlopen(request, timeout=SECONDS))["prompt"]
        self.assertTrue(prompt.endswith("Once upon a time"), prompt)
        whole = self.complete(prompt=self.tokenize(prompt, add_special_tokens=False), max_tokens=20,
                              extra_body={"ignore_eos": True})  # fmt: skip
        self.assertEqual(on.choices[0].message.content, whole.choices[0].text)
        extra["add_generation_prompt"] = True
        self.refused(lambda: self.chat(messages=talk, extra_body=extra), openai.BadRequestError,
                     param="continue_final_message")  # fmt: skip

    def test_content_in_parts(self):
        parts = [{"role": "user", "content": [{"type": "text", "text": ASK[0]["content"]}]}]
        self.assertEqual(self.chat(messages=parts).choices[0].message.content, self.chat().choices[0].message.content)

    def test_a_longer_conversation(self):
        talk = ASK + [{"role": "assistant", "content": "Once."}, {"role": "user", "content": "And then?"}]
        self.assertGreater(self.chat(messages=talk).usage.prompt_tokens, self.chat().usage.prompt_tokens)

    def test_seeds_repeat(self):
        texts = [self.chat(temperature=1.5, seed=seed).choices[0].message.content for seed in (1, 1, 2)]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])

    def test_without_a_seed_answers_differ(self):
        texts = {self.chat(temperature=2).choices[0].message.content for _ in range(5)}
        self.assertGreater(len(texts), 1)

    def test_several_choices(self):
        whole = {"temperature": 1.5, "extra_body": {"ignore_eos": True}}  # so that each has all its tokens
        answer = self.chat(n=3, seed=5, **whole)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1, 2])
        self.assertEqual(answer.usage.completion_tokens, 60)
        self.assertEqual(answer.usage.prompt_tokens, self.chat().usage.prompt_tokens)
        alone = [self.chat(seed=5 + i, **whole).choices[0].message.content for i in range(3)]
        self.assertEqual([choice.message.content for choice in answer.choices], alone)

    def test_several_choices_in_parts(self):
        texts = ["", "", ""]
        for chunk in self.chat(n=3, temperature=1.5, seed=5, stream=True):
            texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
        whole = self.chat(n=3, temperature=1.5, seed=5)
        self.assertEqual(texts, [choice.message.content for choice in whole.choices])

    def test_logprobs(self):
        content = self.chat(logprobs=True, top_logprobs=3).choices[0].logprobs.content
        self.assertEqual(len(content), 20)
        for token in content:
            self.assertLessEqual(token.logprob, 0)
            self.assertEqual(len(token.top_logprobs), 3)
            self.assertAlmostEqual(token.top_logprobs[0].logprob, token.logprob, places=5)
        text = b"".join(bytes(token.bytes) for token in content).decode(errors="replace")
        self.assertEqual(text, self.chat().choices[0].message.content)

    def test_logprobs_in_parts(self):
        streamed = []
        for chunk in self.chat(logprobs=True, top_logprobs=2, stream=True):
            if chunk.choices[0].logprobs:
                streamed += chunk.choices[0].logprobs.content
        whole = self.chat(logprobs=True, top_logprobs=2).choices[0].logprobs.content
        self.assertEqual([(t.token, t.bytes) for t in streamed], [(t.token, t.bytes) for t in whole])

    def test_stops(self):
        whole = self.chat().choices[0].message.content
        word = whole.split()[3]
        answer = self.chat(stop=[word])
        self.assertEqual(answer.choices[0].message.content, whole[: whole.index(word)])
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        text = "".join(c.choices[0].delta.content or "" for c in self.chat(stop=word, stream=True))
        self.assertEqual(text, answer.choices[0].message.content)

    def test_logit_bias_forbids(self):
        first = self.chat(max_tokens=1, logprobs=True).choices[0]
        token = self.tokenize(first.message.content, add_special_tokens=False)[0]
        other = self.chat(max_tokens=1, logit_bias={str(token): -100}).choices[0].message.content
        self.assertNotEqual(other, first.message.content)

    def test_penalties_are_taken(self):
        self.assertTrue(self.chat(presence_penalty=1.0, frequency_penalty=1.0).choices[0].message.content)

    def test_extensions(self):
        extra = {"top_k": 1, "min_p": 0.1, "repetition_penalty": 1.1, "ignore_eos": True, "return_token_ids": True}
        answer = self.chat(temperature=1, extra_body=extra)
        self.assertEqual(len(answer.choices[0].token_ids), 20)

    def test_fields_without_effect(self):
        answer = self.chat(user="me", metadata={"a": "b"}, store=False)
        self.assertEqual(answer.choices[0].message.content, self.chat().choices[0].message.content)

    def test_raw_headers(self):
        answer = self.client.chat.completions.with_raw_response.create(
            model="storyteller", messages=ASK, max_tokens=2, extra_headers={"X-Request-Id": "mine"}
        )
        self.assertEqual(answer.headers["x-request-id"], "mine")
        self.assertTrue(answer.parse().choices)

    def test_the_beta_stream_helper(self):
        options = {"model": "storyteller", "messages": ASK, "max_tokens": 200, "temperature": 0}
        with self.client.chat.completions.stream(**options, stop=["."]) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion()
        self.assertIn("content.delta", kinds)
        whole = self.chat(max_tokens=200, stop=["."]).choices[0]
        self.assertEqual(final.choices[0].message.content, whole.message.content)
        self.assertEqual(final.choices[0].finish_reason, "stop")

    def test_breaking_off_a_stream(self):
        stream = self.chat(stream=True, max_tokens=400, extra_body={"ignore_eos": True})
        next(stream)
        stream.close()
        self.assertTrue(self.chat().choices)

    def test_many_at_once(self):
        want = self.chat().choices[0].message.content
        got = []

        def ask():
            got.append(self.chat().choices[0].message.content)

        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(got, [want] * 16)

    # What is refused.
    @each_row([
        ("temperature", 3), ("temperature", -1), ("temperature", "hot"), ("top_p", 2), ("top_p", -0.5), ("n", 0),
        ("n", 10**6), ("n", 1.5), ("max_tokens", -5), ("max_tokens", 0), ("max_completion_tokens", -1),
        ("presence_penalty", 5), ("frequency_penalty", -3), ("logit_bias", {"99999": 1}), ("logit_bias", {"x": 1}),
        ("logit_bias", {"5": 101}), ("seed", "one"), ("seed", 2**64), ("stop", [""]), ("stop", ["x"] * 100),
        ("stop", 5), ("messages", []), ("messages", "Hi"), ("tools", "x"), ("tools", [{"type": "web_search"}]),
        ("tool_choice", "required"), ("functions", [{"name": "f"}]), ("audio", {}), ("modalities", ["audio"]),
        ("prediction", {"type": "content", "content": "x"}), ("reasoning_effort", "low"), ("verbosity", "low"),
        ("web_search_options", {}), ("store", True), ("response_format", {"type": "xml"}),
        ("response_format", {"type": "json_schema"}), ("stream_options", {"include_usage": True}),
        ("top_logprobs", 2),
    ])  # fmt: skip
    def test_a_bad_value_names_its_field(self, field, value):
        error = self.refused(lambda: self.chat(**{field: value}), openai.BadRequestError)
        self.assertTrue(str(error.param).startswith(field), error)

    @each_row([
        ("top_k", -2), ("top_k", 1.5), ("min_p", 2), ("repetition_penalty", 0), ("min_tokens", -1),
        ("stop_token_ids", [99999]), ("stop_token_ids", "x"), ("ignore_eos", 1), ("priority", 10**6), ("timeout", 0),
        ("cache_salt", "x" * 300), ("chat_template", "x"), ("chat_template_kwargs", []), ("guided_choice", [1]),
        ("guided_regex", "("), ("grammar", "root ::= root"), ("guided_json", {"type": "x"}), ("unheard_of", 1),
        ("reasoning_format", "x"), ("continue_final_message", True), ("echo", True),
    ])  # fmt: skip
    def test_a_bad_extension_names_its_field(self, field, value):
        error = self.refused(lambda: self.chat(extra_body={field: value}), openai.BadRequestError)
        self.assertTrue(str(error.param or field).startswith(field), error)

    @each_row([
        ("temperature", 0.5), ("top_p", 0.5), ("top_p", 0), ("n", 2), ("seed", -1), ("presence_penalty", -2),
        ("frequency_penalty", 2), ("stop", "."), ("stop", [".", "!"]), ("stop", None), ("logit_bias", {}),
        ("logprobs", True), ("max_completion_tokens", 3), ("user", "me"), ("metadata", {"a": "b"}), ("store", False),
        ("modalities", ["text"]), ("service_tier", "auto"), ("tools", []), ("tool_choice", "none"),
        ("tool_choice", "auto"), ("parallel_tool_calls", True), ("response_format", {"type": "text"}),
        ("safety_identifier", "x"), ("prompt_cache_key", "x"),
    ])  # fmt: skip
    def test_a_value_is_taken(self, field, value):
        self.assertIsNotNone(self.chat(**{field: value}).choices[0].message.content)

    @each_row([
        ("top_k", 5), ("top_k", -1), ("min_p", 0.1), ("repetition_penalty", 1.2), ("min_tokens", 2),
        ("stop_token_ids", [17]), ("include_stop_str_in_output", True), ("ignore_eos", True), ("priority", -3),
        ("timeout", 100), ("cache_salt", "x"), ("chat_template_kwargs", {"a": 1}), ("guided_choice", ["a", "b"]),
        ("guided_regex", "[ab]+"), ("grammar", 'root ::= "a"'), ("guided_json", {"type": "boolean"}),
        ("structured_outputs", {"choice": ["x"]}), ("reasoning_format", "none"), ("unheard_of", None),
    ])  # fmt: skip
    def test_an_extension_is_taken(self, field, value):
        self.assertIsNotNone(self.chat(extra_body={field: value}).choices[0].message.content)

    def test_top_logprobs_need_logprobs(self):
        self.refused(lambda: self.chat(top_logprobs=2), openai.BadRequestError, param="top_logprobs")
        self.refused(lambda: self.chat(logprobs=True, top_logprobs=50), openai.BadRequestError, param="top_logprobs")

    def test_bad_messages_name_their_place(self):
        for message, param in (
            ({"role": "wizard", "content": "x"}, "messages[0].role"),
            ({"role": "user"}, "messages[0].content"),
            ({"role": "user", "content": 5}, "messages[0].content"),
            ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
             "messages[0].content[0].image_url.url"),
        ):
            with self.subTest(message=message):
                self.refused(lambda: self.chat(messages=[message]), openai.BadRequestError, param=param)

    def test_what_the_template_refuses(self):
        talk = [{"role": "system", "content": "x"}] + ASK
        self.assertIn("user and assistant", str(self.refused(lambda: self.chat(messages=talk), openai.BadRequestError)))

    def test_a_prompt_that_is_too_long(self):
        talk = [{"role": "user", "content": "story " * 600}]
        error = self.refused(lambda: self.chat(messages=talk), openai.BadRequestError, "context_length_exceeded")
        self.assertIn("512", str(error))

    def test_unknown_paths(self):
        self.refused(lambda: self.client.post("/nothing", body={}, cast_to=object), openai.NotFoundError)

    # Completions.
    def test_a_completion(self):
        answer = self.complete()
        self.assertEqual(answer.object, "text_completion")
        self.assertTrue(answer.id.startswith("cmpl-"))
        self.assertTrue(answer.choices[0].text)
        self.assertEqual(answer.usage.completion_tokens, 12)

    def test_sixteen_tokens_unless_told(self):
        answer = self.client.completions.create(model="storyteller", prompt="Once", extra_body={"ignore_eos": True})
        self.assertEqual(answer.usage.completion_tokens, 16)

    def test_a_completion_in_parts(self):
        text = "".join(chunk.choices[0].text for chunk in self.complete(stream=True))
        self.assertEqual(text, self.complete().choices[0].text)

    def test_prompts_of_every_kind(self):
        ids = self.tokenize("Once upon a time")
        text = self.complete().choices[0].text
        self.assertEqual(self.complete(prompt=ids).choices[0].text, text)
        answer = self.complete(prompt=["Once upon a time", "A fox"])
        self.assertEqual([choice.index for choice in answer.choices], [0, 1])
        self.assertEqual(answer.choices[0].text, text)
        answer = self.complete(prompt=[ids, ids])
        self.assertEqual([choice.text for choice in answer.choices], [text, text])

    def test_choices_of_several_prompts(self):
        answer = self.complete(prompt=["Once", "A fox"], n=2, temperature=1.5, seed=3)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1, 2, 3])

    def test_completion_logprobs(self):
        logprobs = self.complete(logprobs=2).choices[0].logprobs
        self.assertEqual(len(logprobs.tokens), 12)
        self.assertEqual(len(logprobs.text_offset), 12)
        self.assertTrue(all(value <= 0 and math.isfinite(value) for value in logprobs.token_logprobs))
        self.assertTrue(all(1 <= len(top) <= 3 for top in logprobs.top_logprobs))
        self.assertEqual("".join(logprobs.tokens), self.complete().choices[0].text)

    def test_echo(self):
        answer = self.complete(echo=True)
        self.assertEqual(answer.choices[0].text, "Once upon a time" + self.complete().choices[0].text)

    def test_logprobs_of_an_echoed_prompt(self):
        """As lm-eval asks for the score of a text."""
        ids = self.tokenize("Once upon a time")
        choice = self.complete(prompt=ids, echo=True, logprobs=1, max_tokens=1).choices[0]
        self.assertEqual(len(choice.logprobs.tokens), len(ids) + 1)
        self.assertIsNone(choice.logprobs.token_logprobs[0])
        self.assertTrue(all(value <= 0 for value in choice.logprobs.token_logprobs[1:]))
        alone = self.complete(prompt=ids, echo=True, logprobs=1, max_tokens=0).choices[0]
        self.assertEqual(alone.logprobs.token_logprobs, choice.logprobs.token_logprobs[:-1])
        chunks = [chunk.choices[0] for chunk in self.complete(prompt=ids, echo=True, logprobs=1, max_tokens=1,
                                                              stream=True)]
        streamed = [value for chunk in chunks if chunk.logprobs for value in chunk.logprobs.token_logprobs]
        self.assertEqual(streamed, choice.logprobs.token_logprobs)

    def test_best_of(self):
        answer = self.complete(n=2, best_of=4, temperature=1.5, seed=1)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1])

    def test_a_stop_string_that_stays(self):
        answer = self.complete(max_tokens=60, stop=["."], extra_body={"include_stop_str_in_output": True})
        self.assertTrue(answer.choices[0].text.endswith("."))

    def test_a_stop_token(self):
        period = self.tokenize(".", add_special_tokens=False)
        answer = self.complete(max_tokens=60, extra_body={"stop_token_ids": period})
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertEqual(answer.choices[0].stop_reason, period[0])
        self.assertNotIn(".", answer.choices[0].text)

    @each_row([
        ("suffix", "end"), ("prompt", []), ("prompt", [99999]), ("prompt", [[]]), ("prompt", {"a": 1}),
        ("logprobs", 99), ("logprobs", -1), ("best_of", 99), ("best_of", 0), ("max_tokens", 0), ("n", 65),
        ("echo", "yes"),
    ])  # fmt: skip
    def test_a_bad_value_of_a_completion_names_its_field(self, field, value):
        error = self.refused(lambda: self.complete(**{field: value}), openai.BadRequestError)
        self.assertTrue(str(error.param).startswith(field), error)

    @each_row([(1,), (2,), (3,), (5,), (8,), (13,), (21,), (34,)])
    def test_a_stream_of_a_completion_is_the_whole(self, tokens):
        text = "".join(chunk.choices[0].text for chunk in self.complete(stream=True, max_tokens=tokens))
        self.assertEqual(text, self.complete(max_tokens=tokens).choices[0].text)

    # Without retries of the client an overloaded server is an error of its own kind.
    def test_a_full_queue(self):
        with Server("--quiet", "--parallel", 1, "--queue", 1) as server:
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="x", max_retries=0, timeout=SECONDS)
            long = {"model": "storyteller", "prompt": "Once", "max_tokens": 480, "stream": True}
            long["extra_body"] = {"ignore_eos": True}
            codes = set()

            def ask():
                try:
                    for _ in client.completions.create(**long):
                        pass
                except openai.RateLimitError as error:
                    codes.add(error.code)

            # One runs, one waits, four find no room, unless they come one after the other: then once more.
            for _ in range(20):
                threads = [threading.Thread(target=ask) for _ in range(6)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                if codes:
                    break
            self.assertEqual(codes, {"queue_full"})

    def test_a_wrong_key(self):
        with tempfile.NamedTemporaryFile("w") as keys:
            keys.write("right\n")
            keys.flush()
            with Server("--quiet", "--api-key-file", keys.name) as server:
                wrong = openai.OpenAI(base_url=server.url + "/v1", api_key="wrong", max_retries=0)
                self.refused(lambda: wrong.models.list(), openai.AuthenticationError, "invalid_api_key")
                right = openai.OpenAI(base_url=server.url + "/v1", api_key="right", max_retries=0)
                self.assertEqual(right.models.list().data[0].id, "storyteller")

    def test_errors_are_json_of_four_fields(self):
        error = self.refused(lambda: self.chat(n=0), openai.BadRequestError)
        body = json.loads(error.response.text)["error"]
        self.assertEqual(set(body), {"message", "type", "param", "code"})


if __name__ == "__main__":
    unittest.main()
