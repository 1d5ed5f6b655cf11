#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`oort serve` with the official client of OpenAI: tools, structured output, responses and embeddings. Ends with 77,
which ctest takes for skipped, where the client of test/server/requirements.txt is not installed."""
import base64
import json
import struct
import sys
import tempfile
import unittest
import urllib.request
from typing import Literal

from server import ENCODER, SECONDS, TOOL_TEMPLATE, Server, each_row, go_on_in, storyteller_with, with_rows
from watch import wait_for

go_on_in("openai")
try:
    import openai
    import pydantic
except ImportError:
    print("skipped: pip install -r test/server/requirements.txt", file=sys.stderr)
    sys.exit(77)

ASK = [{"role": "user", "content": "Tell me a story about a fox."}]
CITY = {"type": "string", "enum": ["Rome", "Oslo"]}
PARAMETERS = {"type": "object", "properties": {"city": CITY}, "required": ["city"], "additionalProperties": False}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
NOW = {"type": "function", "function": {"name": "now", "description": "The time"}}
LONG = {"ignore_eos": True}  # what a free answer says is the model's business; it has all its tokens
NAMED = {"type": "function", "function": {"name": "weather"}}


class Weather(pydantic.BaseModel):
    """Of a city."""

    city: Literal["Rome", "Oslo"]
    warm: bool


class Suite(unittest.TestCase):
    """A model that knows tools, and an encoder beside it."""

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        model = storyteller_with(TOOL_TEMPLATE, folder)
        cls.server = cls.enterClassContext(Server("--quiet", "--encoder", f"minilm={ENCODER}", model=model))
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0, timeout=SECONDS)

    def chat(self, **options):
        options = {"model": "storyteller", "messages": ASK, "max_tokens": 200, "temperature": 0, **options}
        return self.client.chat.completions.create(**options)

    def respond(self, **options):
        options = {"model": "storyteller", "input": ASK[0]["content"], "temperature": 0, **options}
        return self.client.responses.create(**options)

    def embed(self, **options):
        return self.client.embeddings.create(**{"model": "minilm", "input": "a small cat", **options})

    def refused(self, call, param):
        with self.assertRaises(openai.BadRequestError) as caught:
            call()
        self.assertTrue(str(caught.exception.param).startswith(param), caught.exception)


@with_rows
class ToolsTest(Suite):
    @each_row([("required",), (NAMED,)])
    def test_a_forced_call(self, choice):
        answer = self.chat(tools=[WEATHER], tool_choice=choice, parallel_tool_calls=False).choices[0]
        self.assertEqual(answer.finish_reason, "tool_calls")
        self.assertIsNone(answer.message.content)
        (call,) = answer.message.tool_calls
        self.assertEqual((call.type, call.function.name), ("function", "weather"))
        self.assertIn(json.loads(call.function.arguments)["city"], CITY["enum"])

    @each_row([("required",), (NAMED,)])
    def test_a_forced_call_in_parts(self, choice):
        options = {"tools": [WEATHER], "tool_choice": choice, "parallel_tool_calls": False}
        whole = self.chat(**options).choices[0].message.tool_calls[0]
        names, arguments, finish = [], "", None
        for chunk in self.chat(**options, stream=True):
            for part in chunk.choices[0].delta.tool_calls or []:
                self.assertEqual(part.index, 0)
                names += [part.function.name] if part.function.name else []
                arguments += part.function.arguments
            finish = chunk.choices[0].finish_reason or finish
        self.assertEqual((names, arguments, finish), (["weather"], whole.function.arguments, "tool_calls"))

    def test_the_helper_for_streams(self):
        options = {"model": "storyteller", "messages": ASK, "temperature": 0, "max_tokens": 200}
        options |= {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False}
        with self.client.chat.completions.stream(**options) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion()
        self.assertIn("tool_calls.function.arguments.delta", kinds)
        self.assertEqual(final.choices[0].message.tool_calls[0].function.name, "weather")

    def test_tools_of_classes(self):
        answer = self.client.chat.completions.parse(
            model="storyteller", messages=ASK, tools=[openai.pydantic_function_tool(Weather)], tool_choice="required",
            temperature=0, parallel_tool_calls=False, max_tokens=200,
        )  # fmt: skip
        parsed = answer.choices[0].message.tool_calls[0].function.parsed_arguments
        self.assertIsInstance(parsed, Weather)

    def test_a_conversation_with_a_call(self):
        message = self.chat(tools=[WEATHER], tool_choice="required", parallel_tool_calls=False).choices[0].message
        result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"}
        answer = self.chat(messages=ASK + [message, result], tools=[WEATHER], max_tokens=5, extra_body=LONG).choices[0]
        self.assertEqual(answer.finish_reason, "length")

    @each_row([("auto",), ("none",)])
    def test_a_free_answer(self, choice):
        answer = self.chat(tools=[WEATHER, NOW], tool_choice=choice, max_tokens=10, extra_body=LONG).choices[0]
        self.assertEqual(answer.finish_reason, "length")
        self.assertIsNone(answer.message.tool_calls)
        self.assertTrue(answer.message.content)

    def test_a_call_of_its_own_will(self):
        """A grammar has the model say what one that was trained for it would."""
        call = '<tool_call>\\n{\\"name\\": \\"now\\", \\"arguments\\": {}}\\n</tool_call>'
        extra = {"grammar": f'root ::= "I look. {call}"'}
        answer = self.chat(tools=[WEATHER, NOW], extra_body=extra).choices[0]
        self.assertEqual(answer.finish_reason, "tool_calls")
        self.assertEqual(answer.message.content, "I look.")
        self.assertEqual(answer.message.tool_calls[0].function.name, "now")

    def test_several_choices_call(self):
        options = {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False}
        answer = self.chat(**options, n=3, temperature=1, seed=1)
        calls = [choice.message.tool_calls[0] for choice in answer.choices]
        self.assertEqual(len({call.id for call in calls}), 3)

    def test_reasoning(self):
        extra = {"grammar": 'root ::= "<think>Hm.</think>Yes."'}
        message = self.chat(extra_body=extra).choices[0].message
        self.assertEqual((message.reasoning_content, message.content), ("Hm.", "Yes."))
        text = ""
        for chunk in self.chat(extra_body=extra, stream=True):
            text += getattr(chunk.choices[0].delta, "reasoning_content", None) or ""
        self.assertEqual(text, "Hm.")

    @each_row([
        ("tools[0].type", {"tools": [{"type": "code_interpreter"}]}),
        ("tools[0].function", {"tools": [{"type": "function"}]}),
        ("tools[0].function.name", {"tools": [{"type": "function", "function": {"name": ""}}]}),
        ("tools[1]", {"tools": [NOW, NOW]}),
        ("tool_choice", {"tools": [NOW], "tool_choice": "always"}),
        ("tool_choice", {"tools": [NOW], "tool_choice": NAMED}),
        ("tool_choice", {"tool_choice": NAMED}),
        ("parallel_tool_calls", {"tools": [NOW], "parallel_tool_calls": 1}),
        ("tools", {"tools": [NOW], "response_format": {"type": "json_object"}}),
        ("tools", {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"not": {}}}}],
                   "tool_choice": "required"}),
    ])  # fmt: skip
    def test_what_is_refused(self, param, options):
        self.refused(lambda: self.chat(**options), param)


@with_rows
class StructuredTest(Suite):
    def test_any_object(self):
        answer = self.chat(response_format={"type": "json_object"}, temperature=1, seed=1).choices[0]
        self.assertTrue(answer.message.content.startswith("{"))
        if answer.finish_reason == "stop":
            self.assertIsInstance(json.loads(answer.message.content), dict)

    def test_a_schema(self):
        form = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": PARAMETERS}}
        self.assertIn(json.loads(self.chat(response_format=form).choices[0].message.content)["city"], CITY["enum"])

    def test_a_class(self):
        answer = self.client.chat.completions.parse(
            model="storyteller", messages=ASK, response_format=Weather, temperature=0, max_tokens=200
        )
        self.assertIsInstance(answer.choices[0].message.parsed, Weather)

    @each_row([
        ({"type": "boolean"},), ({"const": 5},), ({"enum": ["a", None]},),
        ({"type": "integer", "minimum": 3, "maximum": 4},),
        ({"type": "array", "items": {"type": "boolean"}, "maxItems": 2},), ({"anyOf": [{"const": 1}, {"const": "x"}]},),
        ({"type": "string", "pattern": "^[ab]{2}$"},), ({"type": "string", "maxLength": 3},), ({"type": "null"},),
        ({"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"], "additionalProperties": False},),
    ])  # fmt: skip
    def test_an_answer_keeps_to_its_schema(self, schema):
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        json.loads(self.chat(response_format=form, temperature=1, seed=1).choices[0].message.content)


@with_rows
class ResponsesTest(Suite):
    def test_a_response(self):
        answer = self.respond(max_output_tokens=10)
        self.assertEqual((answer.object, answer.status), ("response", "incomplete"))
        self.assertEqual(answer.incomplete_details.reason, "max_output_tokens")
        self.assertEqual(answer.output_text, self.chat(max_tokens=10).choices[0].message.content)
        self.assertEqual(answer.usage.output_tokens, 10)

    def test_a_response_in_parts(self):
        events = list(self.respond(max_output_tokens=10, stream=True))
        self.assertEqual(events[0].type, "response.created")
        self.assertEqual(events[-1].type, "response.incomplete")
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        self.assertEqual(text, events[-1].response.output_text)
        self.assertEqual(text, self.respond(max_output_tokens=10).output_text)

    def test_a_whole_answer_is_completed(self):
        form = {"type": "json_schema", "name": "x", "schema": {"const": 1}}
        self.assertEqual(self.respond(text={"format": form}).status, "completed")

    def test_the_helper_for_streams(self):
        options = {"model": "storyteller", "input": "Hi", "temperature": 0, "max_output_tokens": 8}
        with self.client.responses.stream(**options) as stream:
            kinds = [event.type for event in stream]
        self.assertIn("response.output_text.delta", kinds)
        self.assertEqual(kinds[-1], "response.incomplete")

    def test_a_class(self):
        answer = self.client.responses.parse(model="storyteller", input="Hi", text_format=Weather, temperature=0)
        self.assertIsInstance(answer.output_parsed, Weather)

    def test_a_call(self):
        tool = {"type": "function", **WEATHER["function"], "strict": True}
        options = {"tools": [tool], "tool_choice": {"type": "function", "name": "weather"}}
        answer = self.respond(**options)
        (call,) = answer.output
        self.assertEqual((call.type, call.name), ("function_call", "weather"))
        self.assertIn(json.loads(call.arguments)["city"], CITY["enum"])
        events = list(self.respond(**options, stream=True))
        deltas = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
        self.assertEqual("".join(deltas), call.arguments)
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
        talk = [{"role": "user", "content": "Hi"}, call.model_dump(), output]
        self.assertTrue(self.respond(input=talk, max_output_tokens=5).usage.output_tokens)

    @each_row([
        ("a text", "Hi"),
        ("a message", [{"role": "user", "content": "Hi"}]),
        ("parts", [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]),
        ("typed", [{"type": "message", "role": "user", "content": "Hi"}]),
        ("a talk", [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"},
                    {"role": "user", "content": "?"}]),
        ("reasoning", [{"role": "user", "content": "Hi"}, {"type": "reasoning", "id": "r", "summary": []},
                       {"type": "message", "id": "m", "role": "assistant", "status": "completed",
                        "content": [{"type": "output_text", "text": "Ho", "annotations": []}]},
                       {"role": "user", "content": "?"}]),
    ])  # fmt: skip
    def test_an_input_is_taken(self, _, given):
        self.assertTrue(self.respond(input=given, max_output_tokens=3).output)

    @each_row([
        ("previous_response_id", "resp_1"), ("store", True), ("background", True), ("truncation", "auto"),
        ("include", ["web_search_call.results"]), ("input", [{"type": "item_reference", "id": "x"}]), ("input", 5),
        ("tools", [{"type": "web_search"}]), ("reasoning", {"effort": "high"}), ("max_output_tokens", 0),
        ("text", {"format": {"type": "xml"}}), ("temperature", 9), ("conversation", "c"),
    ])  # fmt: skip
    def test_what_is_refused(self, field, value):
        with self.assertRaises(openai.BadRequestError):
            self.respond(**{field: value})


@with_rows
class EmbeddingsTest(Suite):
    def test_a_vector(self):
        answer = self.embed()
        self.assertEqual((answer.object, answer.model), ("list", "minilm"))
        vector = answer.data[0].embedding  # which the client asks for in base64
        self.assertEqual(len(vector), 32)
        self.assertAlmostEqual(sum(value * value for value in vector), 1, places=4)
        self.assertGreater(answer.usage.prompt_tokens, 2)

    def test_an_encoder_is_listed(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["storyteller", "minilm"])
        self.assertEqual(self.client.models.retrieve("minilm").max_model_len, 24)

    def test_texts_are_counted(self):
        names = ['oort:request_success_total{model_name="minilm",engine="0",finished_reason="stop"}',
                 'oort:prompt_tokens_total{model_name="minilm",engine="0"}']  # fmt: skip

        def read():
            text = urllib.request.urlopen(self.server.url + "/metrics", timeout=SECONDS).read().decode()
            lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
            return [float(lines[name]) for name in names]

        before = read()
        tokens = self.embed(input=["a small cat", "the dog"]).usage.prompt_tokens
        wait_for(lambda: [now - old for now, old in zip(read(), before)] == [1, tokens])

    def test_both_encodings_are_one(self):
        plain = self.embed(encoding_format="float").data[0].embedding
        coded = base64.b64decode(self.embed(encoding_format="base64").data[0].embedding)
        self.assertEqual(coded, struct.pack("<32f", *plain))

    def test_several_texts(self):
        answer = self.embed(input=["a small cat", "the dog"])
        self.assertEqual([item.index for item in answer.data], [0, 1])
        for got, want in zip(answer.data[0].embedding, self.embed().data[0].embedding):
            self.assertAlmostEqual(got, want, places=5)

    def test_dimensions_of_the_model(self):
        self.assertEqual(len(self.embed(dimensions=32).data[0].embedding), 32)

    @each_row([
        ("input", ""), ("input", []), ("input", [""]), ("input", [99999]), ("input", {"a": 1}), ("dimensions", 7),
        ("dimensions", 0), ("encoding_format", "int8"), ("input", "cat " * 100),
    ])  # fmt: skip
    def test_what_is_refused(self, field, value):
        self.refused(lambda: self.embed(**{field: value}), field)

    def test_another_model(self):
        with self.assertRaises(openai.NotFoundError):
            self.embed(model="storyteller")

    def test_an_encoder_alone(self):
        with Server("--quiet", model=ENCODER) as server:
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=SECONDS)
            self.assertEqual(len(client.embeddings.create(model=server.name, input="a cat").data[0].embedding), 32)
            with self.assertRaises(openai.NotFoundError):
                client.chat.completions.create(model=server.name, messages=ASK)


del Suite
if __name__ == "__main__":
    unittest.main()
