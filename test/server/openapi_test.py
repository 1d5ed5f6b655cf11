#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Requests and answers of the server against its own OpenAPI file. Ends with 77, which ctest takes for skipped, where
jsonschema is not installed."""
import json
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

from server import (
    ENCODER, RERANKER, SECONDS, SOURCE, TOOL_TEMPLATE, Server, each_row, go_on_in, storyteller_with, with_rows,
)  # fmt: skip

go_on_in("openai")
try:
    import jsonschema
except ImportError:
    print("skipped: pip install -r test/server/requirements.txt", file=sys.stderr)
    sys.exit(77)

TALK = [{"role": "user", "content": "Hi"}]
CHAT = {"messages": TALK, "max_tokens": 4, "temperature": 0}
FUNCTION = {"name": "now", "parameters": {"type": "object", "properties": {}}}
TOOLS = {"tools": [{"type": "function", "function": FUNCTION}], "tool_choice": "required", "parallel_tool_calls": False}
JSON_OBJECT = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": 1}}}}
PICTURE = {"name": "in0", "shape": [1, 1, 28, 28], "datatype": "FP32", "data": [0.5] * 784}
# Address, body, and the schema of an event where the answer is a stream.
POSTS = [
    ("/v1/chat/completions", CHAT, None),
    ("/v1/chat/completions", {**CHAT, "logprobs": True, "top_logprobs": 2, "n": 2, "seed": 1}, None),
    ("/v1/chat/completions", {**CHAT, "return_token_ids": True, "stop": ["x"], "stop_token_ids": [17]}, None),
    ("/v1/chat/completions", {"messages": TALK, **TOOLS}, None),
    ("/v1/chat/completions", {**CHAT, **JSON_OBJECT}, None),
    ("/v1/chat/completions", {**CHAT, "stream": True, "stream_options": {"include_usage": True}}, "ChatChunk"),
    ("/v1/chat/completions", {"messages": TALK, **TOOLS, "stream": True, "logprobs": True}, "ChatChunk"),
    ("/v1/completions", {"prompt": "Once", "max_tokens": 4}, None),
    ("/v1/completions", {"prompt": ["Once", "A"], "max_tokens": 2, "echo": True, "logprobs": 1}, None),
    ("/v1/completions", {"prompt": [5, 6], "max_tokens": 2, "best_of": 3, "n": 2}, None),
    ("/v1/completions", {"prompt": "Once", "max_tokens": 4, "ignore_eos": True, "stream": True}, "CompletionAnswer"),
    ("/v1/responses", {"input": "Hi", "max_output_tokens": 4}, None),
    ("/v1/responses", {"input": TALK, "tools": [{"type": "function", **FUNCTION}], "tool_choice": "required"}, None),
    ("/v1/responses", {"input": "Hi", "max_output_tokens": 4, "stream": True}, "ResponsesEvent"),
    ("/v1/embeddings", {"input": ["a cat", "a dog"]}, None),
    ("/v1/embeddings", {"input": "a cat", "encoding_format": "base64", "model": "minilm"}, None),
    ("/v1/rerank", {"query": "a cat", "documents": ["a dog", {"text": "cats"}], "top_n": 1, "model": "ranker"}, None),
    ("/v2/rerank", {"query": "a cat", "documents": ["a dog"], "return_documents": False}, None),
    ("/v1/messages", {**CHAT, "system": "Be kind.", "stop_sequences": ["x"]}, None),
    ("/v1/messages", {**CHAT, "max_tokens": 99, "tools": [{"name": "now"}], "tool_choice": {"type": "any"}}, None),
    ("/api/chat", {"messages": TALK, "stream": False, "options": {"num_predict": 4}}, None),
    ("/api/generate", {"prompt": "Hi", "stream": False, "options": {"num_predict": 4}}, None),
    ("/tokenize", {"prompt": "Hi", "return_token_strs": True}, None),
    ("/tokenize", {"messages": TALK}, None),
    ("/detokenize", {"tokens": [5, 6]}, None),
    ("/apply-template", {"messages": TALK}, None),
    ("/v2/models/{name}/infer", {"inputs": [PICTURE], "outputs": [{"name": "out0"}], "id": "1"}, None),
    ("/v2/models/{name}/infer", {"inputs": [PICTURE], "parameters": {}}, None),
]
BAD = [
    ("/v1/chat/completions", {"messages": []}),
    ("/v1/completions", {}),
    ("/v1/responses", {"input": "Hi", "store": True}),
    ("/v1/embeddings", {"input": ""}),
    ("/v1/rerank", {"query": "", "documents": ["a dog"]}),
    ("/v1/messages", {"messages": TALK}),
    ("/api/chat", {"messages": 5}),
    ("/api/generate", {}),
    ("/tokenize", {}),
    ("/detokenize", {"tokens": [-1]}),
    ("/apply-template", {"messages": "Hi"}),
    ("/v2/models/{name}/infer", {"inputs": [{**PICTURE, "shape": [1, 28, 28, 2]}]}),
    ("/v2/models/{name}/infer", {"inputs": [{**PICTURE, "shape": [4, 4], "data": [0] * 16}]}),
]


@with_rows
class OpenApiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        model = storyteller_with(TOOL_TEMPLATE, folder)
        options = ("--quiet", "--encoder", f"minilm={ENCODER}", "--reranker", f"ranker={RERANKER}", "--graph",
                   f"digits={SOURCE / 'models/digits'}")  # fmt: skip
        cls.server = cls.enterClassContext(Server(*options, model=model))
        cls.document = json.loads(cls.ask("/openapi.json")[1])

    @classmethod
    def ask(cls, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(cls.server.url + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def check(self, value, schema):
        schema = {**schema, "components": self.document["components"]}
        jsonschema.Draft202012Validator(schema).validate(value)

    def schema_of(self, path, method, status):
        responses = self.document["paths"][path][method]["responses"]
        return responses[status]["content"]["application/json"]["schema"]

    def test_every_schema_is_one(self):
        for schema in self.document["components"]["schemas"].values():
            jsonschema.Draft202012Validator.check_schema(schema)

    @each_row(POSTS)
    def test_an_answer(self, path, body, event):
        self.check(body, self.document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"])
        status, text = self.ask(path.replace("{name}", "digits"), body)
        self.assertEqual(status, 200, text)
        if event is None:
            return self.check(json.loads(text), self.schema_of(path, "post", "200"))
        events = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
        self.assertTrue(events, text)  # how many there are depends on how fast they are read
        for data in events:
            self.check(json.loads(data), {"$ref": f"#/components/schemas/{event}"})

    @each_row(BAD)
    def test_an_error(self, path, body):
        status, text = self.ask(path.replace("{name}", "digits"), body)
        self.assertEqual(status, 400, text)
        self.check(json.loads(text), self.schema_of(path, "post", "4XX"))

    @each_row([("/v1/models",), ("/v1/models/{name}",), ("/api/tags",), ("/health",), ("/ready",), ("/version",),
               ("/v2",), ("/v2/models/{name}",), ("/v2/models/{name}/ready",), ("/v2/health/ready",)])
    def test_what_is_told(self, path):
        status, text = self.ask(path.replace("{name}", "digits" if path.startswith("/v2") else "storyteller"))
        self.assertEqual(status, 200, text)
        self.check(json.loads(text), self.schema_of(path, "get", "200"))


if __name__ == "__main__":
    unittest.main()
