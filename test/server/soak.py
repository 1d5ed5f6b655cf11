#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Full load for a long time, a tenth of it faults: no answer may be wrong, and memory must stay flat.

  test/server/soak.py [--minutes 60] [--clients 16] [--model FILE] [--json]

Each prompt is asked once alone before; whatever runs beside it, later answers must be the same to the byte. Faults are
clients that leave at every moment, bodies that are no request, and readers who take their time.
"""
import argparse
import collections
import json
import random
import socket
import sys
import threading
import time

from disconnects_test import ENDS, PHASES, leave, take
from server import STORYTELLER, Server
from watch import SECONDS, address, descriptors, is_idle, memory, metric, percentile, request_bytes, wait_for

PROMPTS = [f"Once upon a time there was a {animal} who {verb}" for animal in ("fox", "cat", "bird", "bear", "dog")
           for verb in ("sang", "ran", "saw a star", "had a hat")]
BAD_BODIES = (b"", b"{", b"[]", b'{"prompt": 7}', b'{"prompt": "a", "max_tokens": -1}', b'{"prompt": "\xff"}',
              b'{"prompt": "a", "n": 1000000}', b"[" * 5000, b'{"prompt": "a", "temperature": 1e999}')
SECONDS_OF_WARM_UP = 15


def body_of(prompt, tokens):
    return {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True}


def read_stream(peer, slow=None):
    """The text of an answer; `slow` is where a reader's pauses come from."""
    got = b""
    while b"0\r\n\r\n" not in got[-16:]:
        part = peer.recv(200 if slow else 65536)
        if not part:
            raise AssertionError("an answer broke off")
        got += part
        if slow:
            time.sleep(slow.random() * 0.02)
    head, _, rest = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), got[:300]
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        count = int(size, 16)
        body, rest = body + rest[:count], rest[count + 2:]
    events = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
    assert events[-1] == "[DONE]", events[-1]
    return "".join(choice["text"] for event in events[:-1] for choice in json.loads(event)["choices"])


def ask(where, body, slow=None):
    with socket.create_connection(where, timeout=SECONDS) as peer:
        peer.sendall(request_bytes(body))
        return read_stream(peer, slow)


def send_bad(where, body):
    """What is no request gets a 4xx, and the server lives."""
    head = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n")
    with socket.create_connection(where, timeout=SECONDS) as peer:
        peer.sendall(head % len(body) + body)
        status = take(peer, lambda got: len(got) >= 12)[:12]
    assert status.startswith(b"HTTP/1.1 4"), status


class Soak:
    def __init__(self, where, tokens, expected):
        self.where, self.tokens, self.expected = where, tokens, expected
        self.counts, self.failures, self.stop = collections.Counter(), [], threading.Event()

    def client(self, seed):
        random_ = random.Random(seed)
        try:
            while not self.stop.is_set():
                fault = random_.random() < 0.1
                kind = random_.choice(("leave", "bad", "slow")) if fault else "answer"
                if kind == "leave":
                    leave(self.where, random_.choice(PHASES), random_.choice(ENDS), random_)
                elif kind == "bad":
                    send_bad(self.where, random_.choice(BAD_BODIES))
                else:
                    prompt = random_.choice(PROMPTS)
                    text = ask(self.where, body_of(prompt, self.tokens), random_ if kind == "slow" else None)
                    assert text == self.expected[prompt], (prompt, text, self.expected[prompt])
                self.counts[kind] += 1
        except Exception as error:  # told at the end
            self.failures.append(repr(error))
            self.stop.set()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--model", default=STORYTELLER)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with Server("--quiet", "--parallel", 12, model=arguments.model) as server:
        where, pid = address(server.url), server.process.pid
        expected = {prompt: ask(where, body_of(prompt, arguments.tokens)) for prompt in PROMPTS}
        soak = Soak(where, arguments.tokens, expected)
        clients = [threading.Thread(target=soak.client, args=(seed,)) for seed in range(arguments.clients)]
        for client in clients:
            client.start()
        soak.stop.wait(min(SECONDS_OF_WARM_UP, 20 * arguments.minutes))
        files, begin, samples = descriptors(pid), time.monotonic(), []
        while not soak.stop.wait(1) and time.monotonic() - begin < 60 * arguments.minutes:
            samples.append(memory(pid))
        soak.stop.set()
        for client in clients:
            client.join()
        assert not soak.failures, soak.failures
        wait_for(lambda: is_idle(server.url))
        assert metric(server.url, "oort:blocks_used") == 0
        wait_for(lambda: descriptors(pid) <= files)
        tenth = max(1, len(samples) // 10)
        first, last = percentile(samples[:tenth], 0.5), percentile(samples[-tenth:], 0.5)
        figures = {"minutes": arguments.minutes, **{name: soak.counts[name]
                                                    for name in ("answer", "slow", "leave", "bad")},
                   "memory_first_mb": first / 1e6, "memory_last_mb": last / 1e6}
        if arguments.json:
            print(json.dumps(figures))
        else:
            says = ("{minutes:g} min: {answer} answers and {slow} to slow readers, none wrong; {leave} clients left, "
                    "{bad} bad bodies; memory {memory_first_mb:.1f} MB at first, {memory_last_mb:.1f} MB at last")
            print(says.format(**figures))
        assert last - first < 4e6 + 0.02 * first, "memory grows"
        assert server.stop() == 0


if __name__ == "__main__":
    sys.exit(main())
