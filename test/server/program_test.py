#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`oort serve` as a program: how it starts, ends and refuses, with Python's own HTTP alone."""
import http.client
import json
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

from server import ENCODER, OORT, SECONDS, SOURCE, STORYTELLER, Server
from watch import metric, open_stream, processor_seconds, wait_for

DIGITS = SOURCE / "models/digits"
CHAT = {"messages": [{"role": "user", "content": "Tell me a story about a fox."}], "max_tokens": 8, "temperature": 0}
ENDLESS = {"prompt": "Once", "max_tokens": 480, "ignore_eos": True, "stream": True}


def post(url, path, body, headers=()):
    data = json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json", **dict(headers)})
    return urllib.request.urlopen(request, timeout=SECONDS)


def write_adapter(folder, rank=4):
    """An adapter of the storyteller in PEFT's files, for the values of each layer."""
    config = json.loads((STORYTELLER / "config.json").read_text())
    wide, heads = config["hidden_size"], config["num_attention_heads"]
    shapes = {"A": (rank, wide), "B": (wide // heads * config["num_key_value_heads"], rank)}
    header, data = {}, b""
    for layer in range(config["num_hidden_layers"]):
        for name, shape in shapes.items():
            values = [((7 * i + layer) % 13 - 6) / 50 for i in range(shape[0] * shape[1])]
            begin, data = len(data), data + struct.pack(f"<{len(values)}f", *values)
            header[f"base_model.model.model.layers.{layer}.self_attn.v_proj.lora_{name}.weight"] = {
                "dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": rank, "lora_alpha": 8, "target_modules": ["v_proj"]}))
    return folder


class ProgramTest(unittest.TestCase):
    def run_oort(self, *arguments):
        return subprocess.run([OORT, "serve", *map(str, arguments)], capture_output=True, text=True, timeout=SECONDS)

    def test_one_line_tells_where_it_serves(self):
        with Server() as server:
            self.assertEqual(len(server.log), 1)
            self.assertEqual(server.name, "storyteller")
            self.assertEqual(json.load(urllib.request.urlopen(server.url + "/health"))["status"], "ok")
            self.assertEqual(server.stop(), 0)

    def test_the_line_names_all_that_can_be_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            adapter = write_adapter(pathlib.Path(folder, "fox"))
            with Server("--lora", f"fox={adapter}", "--encoder", f"bert={ENCODER}", "--graph",
                        f"digits={DIGITS}") as server:
                self.assertRegex(server.log[-1], r"\Aoort: serving storyteller, fox, bert and digits at http://")
                answer = json.load(post(server.url, "/v1/chat/completions", {**CHAT, "model": "fox"}))
                self.assertEqual(answer["model"], "fox")

    def test_a_wrong_start_is_one_line(self):
        for arguments, code, says in (
            ([STORYTELLER, "--host", "0.0.0.0", "--port", "0"], 1, "--api-key-file"),
            ([STORYTELLER, "--api-key-file", "/none"], 2, "/none"),
            (["/no/model"], 1, "/no/model"),
            ([STORYTELLER, "--port", "70000"], 2, "--port"),
            ([STORYTELLER, "--context", "1000000"], 2, "--context"),
            *(([STORYTELLER, "--step-time", time], 2, "--step-time") for time in ("-1", "nan", "inf", "soon", "")),
        ):
            done = self.run_oort(*arguments)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertRegex(done.stderr, r"\Aoort: [^\n]+\n\Z")
            self.assertIn(says, done.stderr)
        with Server() as server:
            port = urllib.parse.urlsplit(server.url).port
            done = self.run_oort(STORYTELLER, "--port", port)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"127.0.0.1:{port}", done.stderr)

    def steps_of_prompts(self, step_time):
        """How many steps read three prompts of 400 tokens while other answers go on, and what came before."""
        with Server("--cache-tokens", 8192, "--no-prefix-cache", "--step-time", step_time) as server:
            prompt = {"prompt": [10 + i % 50 for i in range(400)], "max_tokens": 1}
            post(server.url, "/v1/completions", prompt).read()  # tells how long steps take
            connection = open_stream(server.url, {**ENDLESS, "n": 12})  # goes on for longer than the prompts take
            response = connection.getresponse()
            response.readline()
            for _ in range(3):
                post(server.url, "/v1/completions", prompt).read()
            response.read()
            connection.close()
            wait_for(lambda: metric(server.url, "oort:num_requests_running") == 0)
            return metric(server.url, "oort:steps_total") - ENDLESS["max_tokens"]

    def test_the_time_of_a_step_reaches_the_engine(self):
        self.assertLess(self.steps_of_prompts(0) + 10, self.steps_of_prompts(1e-6))

    def test_keys_come_from_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder, "keys")
            keys.write_text("one\ntwo\n")
            with Server("--api-key-file", keys) as server:
                with self.assertRaises(urllib.error.HTTPError) as caught:
                    post(server.url, "/v1/chat/completions", CHAT)
                self.assertEqual(caught.exception.code, 401)
                caught.exception.close()
                answer = post(server.url, "/v1/chat/completions", CHAT, {"Authorization": "Bearer two"})
                self.assertEqual(answer.status, 200)
                server.stop()
                self.assertIn("key=2", "".join(server.log))

    def test_sigterm_ends_answers_first(self):
        with Server() as server:
            connection = open_stream(server.url, {**ENDLESS, "max_tokens": 100})
            response = connection.getresponse()
            self.assertTrue(response.readline().startswith(b"data: "))
            self.assertEqual(server.stop(), 0)
            self.assertTrue(response.read().endswith(b"data: [DONE]\n\n"))
            connection.close()

    def test_answers_that_take_longer_than_the_drain_are_cut(self):
        with Server("--drain-time", 0) as server:
            connection = open_stream(server.url, {**ENDLESS, "n": 64})
            response = connection.getresponse()
            response.readline()
            self.assertEqual(server.stop(signal.SIGINT), 0)
            with self.assertRaises(http.client.IncompleteRead):
                response.read()
            connection.close()

    def test_a_client_that_leaves_stops_its_answer(self):
        with Server() as server:
            connection = open_stream(server.url, {**ENDLESS, "n": 64})  # far more than it makes until then
            connection.getresponse().readline()
            connection.sock.close()
            connection.close()
            wait_for(lambda: metric(server.url, "vllm:num_requests_running") == 0)
            self.assertLess(metric(server.url, "vllm:generation_tokens_total"), 64 * 480)

    def test_an_idle_server_rests(self):
        with Server() as server:
            post(server.url, "/v1/chat/completions", CHAT).read()
            # Busy threads would take a second in each second, each.
            wait_for(lambda: metric(server.url, "oort:num_requests_running") == 0)
            before = processor_seconds(server.process.pid)
            time.sleep(2)
            self.assertLess(processor_seconds(server.process.pid) - before, 0.5)

    def test_many_open_streams(self):
        """More connections than a shell's usual limit of descriptors."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
        try:
            with Server("--quiet") as server:
                address = urllib.parse.urlsplit(server.url)
                peers = [socket.create_connection((address.hostname, address.port)) for _ in range(1200)]
                for peer in peers[::100]:
                    peer.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    peer.settimeout(SECONDS)
                    self.assertTrue(peer.recv(1000).startswith(b"HTTP/1.1 200"))
                for peer in peers:
                    peer.close()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


if __name__ == "__main__":
    unittest.main()
