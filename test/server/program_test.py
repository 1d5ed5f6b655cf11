#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`oort serve` as a program: how it starts, ends and refuses, with Python's own HTTP alone."""
import http.client
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request

from server import OORT, SECONDS, STORYTELLER, Server

CHAT = {"messages": [{"role": "user", "content": "Tell me a story about a fox."}], "max_tokens": 8, "temperature": 0}
ENDLESS = {"prompt": "Once", "max_tokens": 480, "ignore_eos": True, "stream": True}


def post(url, path, body, headers=()):
    data = json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json", **dict(headers)})
    return urllib.request.urlopen(request, timeout=SECONDS)


def metric(url, name):
    """The sum of a metric's lines."""
    text = urllib.request.urlopen(url + "/metrics", timeout=SECONDS).read().decode()
    lines = [line for line in text.splitlines() if line.startswith(name + "{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def wait_for(condition):
    end = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it did not happen")
        time.sleep(0.01)


def open_stream(url, body):
    address = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=SECONDS)
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    return connection


class ProgramTest(unittest.TestCase):
    def run_oort(self, *arguments):
        return subprocess.run([OORT, "serve", *map(str, arguments)], capture_output=True, text=True, timeout=SECONDS)

    def test_one_line_tells_where_it_serves(self):
        with Server() as server:
            self.assertEqual(len(server.log), 1)
            self.assertEqual(server.name, "storyteller")
            self.assertEqual(json.load(urllib.request.urlopen(server.url + "/health"))["status"], "ok")
            self.assertEqual(server.stop(), 0)

    def test_a_wrong_start_is_one_line(self):
        for arguments, code, says in (
            ([STORYTELLER, "--host", "0.0.0.0", "--port", "0"], 1, "--api-key-file"),
            ([STORYTELLER, "--api-key-file", "/none"], 2, "/none"),
            (["/no/model"], 1, "/no/model"),
            ([STORYTELLER, "--port", "70000"], 2, "--port"),
            ([STORYTELLER, "--context", "1000000"], 2, "--context"),
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
            connection = open_stream(server.url, {**ENDLESS, "n": 8})
            response = connection.getresponse()
            response.readline()
            self.assertEqual(server.stop(signal.SIGINT), 0)
            with self.assertRaises(http.client.IncompleteRead):
                response.read()
            connection.close()

    def test_a_client_that_leaves_stops_its_answer(self):
        with Server() as server:
            connection = open_stream(server.url, ENDLESS)
            connection.getresponse().readline()
            connection.sock.close()
            connection.close()
            wait_for(lambda: metric(server.url, "vllm:num_requests_running") == 0)
            self.assertLess(metric(server.url, "vllm:generation_tokens_total"), 480)

    def test_a_storm_of_disconnects_leaves_nothing(self):
        with Server("--quiet") as server:
            post(server.url, "/v1/chat/completions", CHAT).read()
            descriptors = pathlib.Path(f"/proc/{server.process.pid}/fd")
            before = len(list(descriptors.iterdir()))
            address = urllib.parse.urlsplit(server.url)
            body = json.dumps(ENDLESS).encode()
            whole = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            whole += b"Content-Length: %d\r\n\r\n" % len(body) + body

            def storm(seed):
                for i in range(100):
                    with socket.create_connection((address.hostname, address.port)) as peer:
                        cut = (seed * 7919 + i * 104729) % (2 * len(whole))
                        peer.sendall(whole[: max(1, cut)])
                        if i % 3 == 0:
                            peer.settimeout(0.01 * (i % 4) + 0.001)
                            try:
                                peer.recv(1000)
                            except TimeoutError:
                                pass
                        if i % 2:  # RST instead of FIN
                            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

            threads = [threading.Thread(target=storm, args=(seed,)) for seed in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            wait_for(lambda: metric(server.url, "vllm:num_requests_running") == 0)
            wait_for(lambda: metric(server.url, "vllm:num_requests_waiting") == 0)
            self.assertEqual(metric(server.url, "oort:blocks_used"), 0)
            # One more is the connection that asks for metrics, while it closes.
            wait_for(lambda: len(list(descriptors.iterdir())) <= before)

    def test_an_idle_server_rests(self):
        with Server() as server:
            post(server.url, "/v1/chat/completions", CHAT).read()
            stat = pathlib.Path(f"/proc/{server.process.pid}/stat")

            def ticks():
                fields = stat.read_text().rsplit(")", 1)[1].split()
                return int(fields[11]) + int(fields[12])

            # Busy threads would take hundreds of ticks a second each.
            wait_for(lambda: metric(server.url, "oort:num_requests_running") == 0)
            before = ticks()
            time.sleep(2)
            self.assertLess((ticks() - before) / os.sysconf("SC_CLK_TCK"), 0.5)

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
