#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`oort serve` with clients that people use instead of OpenAI's own. Ends with 77, which ctest takes for skipped, where
those of test/server/clients.txt are not installed."""
import json
import os
import sys
import tempfile
import unittest
from typing import Literal

from server import ENCODER, SECONDS, TOOL_TEMPLATE, Server, go_on_in, storyteller_with

go_on_in("clients")
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # nothing is fetched
try:
    import anthropic
    import instructor
    import langchain_openai
    import litellm
    import ollama
    import openai
    import pydantic
    import pydantic_ai
    import pydantic_ai.models.openai
    import pydantic_ai.providers.openai
except ImportError as error:
    print(f"skipped: {error}: pip install -r test/server/clients.txt", file=sys.stderr)
    sys.exit(77)

ASK = "Tell me a story about a fox."
TALK = [{"role": "user", "content": ASK}]
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "weather", "description": "Of a city", "parameters": PARAMETERS}}


class Weather(pydantic.BaseModel):
    """Of a city."""

    city: Literal["Rome", "Oslo"]


class ClientsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        model = storyteller_with(TOOL_TEMPLATE, folder)
        cls.server = cls.enterClassContext(Server("--quiet", "--encoder", f"minilm={ENCODER}", model=model))
        cls.base = cls.server.url + "/v1"
        cls.openai = openai.OpenAI(base_url=cls.base, api_key="none", timeout=SECONDS)
        answer = cls.openai.chat.completions.create(model="storyteller", messages=TALK, max_tokens=12, temperature=0)
        cls.text = answer.choices[0].message.content

    # litellm
    def litellm(self, **options):
        options = {"model": "openai/storyteller", "messages": TALK, "max_tokens": 12, "temperature": 0, **options}
        return litellm.completion(api_base=self.base, api_key="none", timeout=SECONDS, **options)

    def test_litellm(self):
        self.assertEqual(self.litellm().choices[0].message.content, self.text)

    def test_litellm_streams(self):
        chunks = self.litellm(stream=True)
        self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in chunks), self.text)

    def test_litellm_calls_a_tool(self):
        answer = self.litellm(tools=[TOOL], tool_choice="required", max_tokens=200)
        self.assertEqual(answer.choices[0].message.tool_calls[0].function.name, "weather")

    def test_litellm_embeds(self):
        answer = litellm.embedding(
            model="openai/minilm", input=["a cat"], api_base=self.base, api_key="none", encoding_format="float"
        )
        self.assertEqual(len(answer.data[0]["embedding"]), 32)

    # langchain
    def langchain(self, **options):
        return langchain_openai.ChatOpenAI(
            model="storyteller", base_url=self.base, api_key="none", temperature=0, timeout=SECONDS, **options
        )

    def test_langchain(self):
        self.assertEqual(self.langchain(max_tokens=12).invoke(ASK).content, self.text)

    def test_langchain_streams(self):
        parts = self.langchain(max_tokens=12).stream(ASK)
        self.assertEqual("".join(part.content for part in parts), self.text)

    def test_langchain_calls_a_tool(self):
        answer = self.langchain().bind_tools([Weather], tool_choice="required").invoke(ASK)
        self.assertEqual(answer.tool_calls[0]["name"], "Weather")

    def test_langchain_structures(self):
        self.assertIsInstance(self.langchain().with_structured_output(Weather).invoke(ASK), Weather)

    # instructor
    def test_instructor(self):
        for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
            with self.subTest(mode=mode):
                client = instructor.from_openai(self.openai, mode=mode)
                answer = client.chat.completions.create(
                    model="storyteller", messages=TALK, response_model=Weather, temperature=0
                )
                self.assertIsInstance(answer, Weather)

    # pydantic-ai
    def agent(self, **options):
        provider = pydantic_ai.providers.openai.OpenAIProvider(base_url=self.base, api_key="none")
        model = pydantic_ai.models.openai.OpenAIChatModel("storyteller", provider=provider)
        return pydantic_ai.Agent(model, model_settings={"temperature": 0, "max_tokens": 200}, **options)

    def test_pydantic_ai(self):
        self.assertTrue(self.agent().run_sync(ASK).output)

    def test_pydantic_ai_structures(self):
        self.assertIsInstance(self.agent(output_type=Weather).run_sync(ASK).output, Weather)

    # ollama
    def ollama(self):
        return ollama.Client(host=self.server.url, timeout=SECONDS)

    def test_ollama(self):
        options = {"temperature": 0, "num_predict": 12}
        answer = self.ollama().chat(model="storyteller", messages=TALK, options=options)
        self.assertEqual(answer.message.content, self.text)
        parts = self.ollama().chat(model="storyteller", messages=TALK, options=options, stream=True)
        self.assertEqual("".join(part.message.content for part in parts), self.text)
        self.assertEqual(self.ollama().generate(model="storyteller", prompt=ASK, options=options).response, self.text)
        self.assertIn("storyteller", [model.model for model in self.ollama().list().models])

    def test_ollama_structures(self):
        answer = self.ollama().chat(
            model="storyteller", messages=TALK, format=Weather.model_json_schema(), options={"temperature": 0}
        )
        Weather.model_validate_json(answer.message.content)

    # anthropic
    def anthropic(self):
        return anthropic.Anthropic(base_url=self.server.url, api_key="none", timeout=SECONDS)

    def test_anthropic(self):
        options = {"model": "storyteller", "max_tokens": 12, "messages": TALK, "extra_body": {"temperature": 0}}
        self.assertEqual(self.anthropic().messages.create(**options).content[0].text, self.text)
        with self.anthropic().messages.stream(**options) as stream:
            self.assertEqual("".join(stream.text_stream), self.text)

    def test_anthropic_uses_a_tool(self):
        tool = {"name": "weather", "description": "Of a city", "input_schema": PARAMETERS}
        options = {"model": "storyteller", "max_tokens": 200, "messages": TALK, "tools": [tool]}
        options["extra_body"] = {"temperature": 0}
        options["tool_choice"] = {"type": "tool", "name": "weather"}
        answer = self.anthropic().messages.create(**options)
        self.assertEqual(answer.stop_reason, "tool_use")
        self.assertIn(answer.content[0].input["city"], ["Rome", "Oslo"])
        with self.anthropic().messages.stream(**options) as stream:
            final = stream.get_final_message()
        self.assertEqual(json.dumps(final.content[0].input), json.dumps(answer.content[0].input))
        result = {"type": "tool_result", "tool_use_id": answer.content[0].id, "content": "sunny"}
        talk = TALK + [{"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
        free = self.anthropic().messages.create(model="storyteller", max_tokens=5, messages=talk)
        self.assertEqual((free.role, free.type), ("assistant", "message"))


if __name__ == "__main__":
    unittest.main()
