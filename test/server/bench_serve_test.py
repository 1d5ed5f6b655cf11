#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`oort bench-serve` against the server, and against servers that do wrong."""
import json
import pathlib
import socket
import subprocess
import tempfile
import threading
import unittest
import xml.etree.ElementTree

from server import OORT, SECONDS, Server

EVENT = b'data: {"choices":[{"index":0,"text":"a"}]}\n\n'


def bench(*arguments):
    return subprocess.run([OORT, "bench-serve", *map(str, arguments)], capture_output=True, text=True, timeout=SECONDS)


def serve_bytes(answer, connections):
    """A server that sends the same bytes to whoever connects, and where it is."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run():
        for _ in range(connections):
            peer, _ = listener.accept()
            with peer:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += peer.recv(65536)
                peer.sendall(answer)
        listener.close()

    threading.Thread(target=run, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def chunked(*parts):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)


class BenchServeTest(unittest.TestCase):
    def check_load(self, load, requests, prompt, new):
        self.assertEqual(load["requests"], requests)
        self.assertEqual(load["failed"], 0, load["errors"])
        self.assertEqual(load["prompt_tokens"], requests * prompt)
        self.assertEqual(load["new_tokens"], requests * new)
        self.assertAlmostEqual(sum(load["tokens_in_each_second"]), requests * new, places=6)
        for name in ("ttft_ms", "e2e_ms"):
            times = load[name]
            self.assertEqual(times["count"], requests)
            self.assertLessEqual(0 < times["p50"] and times["p50"], times["p90"])
            self.assertLessEqual(times["p90"], times["p99"])
            self.assertLessEqual(times["p99"], times["max"])
        self.assertLessEqual(load["ttft_ms"]["p50"], load["e2e_ms"]["p50"])  # a late reader gets all at once

    def test_closed_loop(self):
        with Server("--quiet") as server, tempfile.TemporaryDirectory() as folder:
            picture = pathlib.Path(folder, "load.svg")
            done = bench(server.url, "--concurrency", "1,3", "--requests", 6, "--prompt-tokens", 20, "--new-tokens", 8,
                         "--json", "--svg", picture, "--most-ttft", 1e9, "--most-e2e", 1e-6)
            self.assertEqual(done.returncode, 0, done.stderr)
            found = json.loads(done.stdout)
            self.assertEqual(found["model"], "storyteller")
            self.assertEqual([load["load"] for load in found["loads"]], ["1 client", "3 clients"])
            for load in found["loads"]:
                self.check_load(load, 6, 20, 8)
                self.assertEqual(load["cached_tokens"], 0)  # no two prompts begin alike
                self.assertEqual(load["good_requests"], 0)  # none is done in a nanosecond
            root = xml.etree.ElementTree.parse(picture).getroot()
            self.assertTrue(root.tag.endswith("svg"))
            self.assertIn("3 clients", picture.read_text())

    def test_open_loop(self):
        with Server("--quiet") as server:
            done = bench(server.url + "/v1", "--rate", 200, "--requests", 12, "--chat", "--prompt-tokens", 5,
                         "--new-tokens", 4, "--json", "--most-ttft", 1e9)
            self.assertEqual(done.returncode, 0, done.stderr)
            (load,) = json.loads(done.stdout)["loads"]
            self.assertEqual(load["load"], "200 requests/s")
            self.assertEqual((load["requests"], load["good_requests"], load["new_tokens"]), (12, 12, 48))

    def test_prompts_of_a_file(self):
        with Server("--quiet") as server, tempfile.TemporaryDirectory() as folder:
            prompts = pathlib.Path(folder, "prompts")
            prompts.write_text('Once upon a time\n{"prompt": [40, 41, 42], "max_tokens": 3}\n\n')
            done = bench(server.url, "--prompts", prompts, "--requests", 2, "--warm-up", 0, "--new-tokens", 5, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["loads"][0]["new_tokens"], 8)
            prompts.write_text('{"text": "a"}\n')
            done = bench(server.url, "--prompts", prompts)
            self.assertEqual(done.returncode, 1)
            self.assertIn("line 1", done.stderr)

    def test_the_last_line_is_for_programs(self):
        with Server("--quiet") as server:
            done = bench(server.url, "--requests", 2, "--new-tokens", 4)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout.splitlines()[-1], r"\Atokens_per_second [\d.]+ requests_per_second [\d.]+ "
                                                           r"failed 0\Z")
            self.assertIn("TTFT", done.stdout)

    def test_keys(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder, "keys")
            keys.write_text("# mine\nsecret\n")
            with Server("--quiet", "--api-key-file", keys) as server:
                done = bench(server.url, "--requests", 1)
                self.assertEqual(done.returncode, 1)
                self.assertIn("--api-key-file", done.stderr)
                done = bench(server.url, "--requests", 1, "--new-tokens", 2, "--api-key-file", keys)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_errors_tell_what_to_do(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        for arguments, code, says in (
            ([f"http://127.0.0.1:{port}"], 1, "oort serve MODEL"),
            (["http://host.invalid:80"], 1, "correct the address"),
            (["https://127.0.0.1"], 2, "TLS"),
            (["http://127.0.0.1:0"], 2, "http://127.0.0.1:8080"),
            (["ftp://127.0.0.1"], 2, "http://127.0.0.1:8080"),
            (["http://127.0.0.1:1", "--rate", 1, "--concurrency", 1], 2, "--rate"),
            ([serve_bytes(b"SSH-2.0-x\r\n\r\n" + 65536 * b"x", 1)], 1, "no HTTP"),
            ([serve_bytes(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 1)], 1, "OpenAI"),
            ([serve_bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 1)], 1, "--model"),
        ):
            done = bench(*arguments)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertRegex(done.stderr, r"\Aoort: [^\n]+\n\Z")
            self.assertIn(says, done.stderr)

    def test_answers_that_go_wrong_are_counted(self):
        for answer, says in (
            (chunked(EVENT), "closed before"),
            (chunked(EVENT, b""), "without its last event"),
            (chunked(b'data: {"error": {"message": "no room"}}\n\n', b""), "no room"),
            (chunked(b"data: [\n\n", b""), "no JSON"),
            (b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 31\r\n\r\n" + b'{"error":{"message":"too many"}}'[:31],
             "status 429"),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "no HTTP"),
        ):
            url = serve_bytes(answer, 2)
            done = bench(url, "--model", "m", "--warm-up", 0, "--requests", 2, "--json")
            self.assertEqual(done.returncode, 1, done.stderr)
            (load,) = json.loads(done.stdout)["loads"]
            self.assertEqual((load["requests"], load["failed"]), (0, 2))
            self.assertIn(says, list(load["errors"])[0])

    def test_events_in_pieces(self):
        """Wherever the network cuts an answer, it is the same."""
        usage = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n'
        answer = chunked(EVENT[:9], EVENT[9:] + b": wait\n\n" + EVENT, usage, b"data: [DONE]\n\n", b"")
        done = bench(serve_bytes(answer, 1), "--model", "m", "--warm-up", 0, "--requests", 1, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        (load,) = json.loads(done.stdout)["loads"]
        self.assertEqual((load["prompt_tokens"], load["new_tokens"], load["itl_ms"]["count"]), (7, 2, 1))


if __name__ == "__main__":
    unittest.main()
