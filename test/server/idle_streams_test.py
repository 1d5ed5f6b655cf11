#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Many streams that wait beside a few that run: what they cost, and that nobody is harmed.

  test/server/idle_streams_test.py [--streams N] [--tokens N] [--speed] [--model FILE]
"""
import argparse
import json
import socket
import threading
import time

from server import STORYTELLER, Server
from watch import (SECONDS, address, ask_health, is_idle, memory, metric, open_stream, percentile, processor_seconds,
                   raise_file_limit, request_bytes, wait_for)

BUSY = 8


def run_busy(url, tokens):
    """Eight answers at once: tokens a second of all of them."""
    counts, failures = [], []

    def run():
        try:
            connection = open_stream(url, {"prompt": "Once", "max_tokens": tokens, "ignore_eos": True, "stream": True,
                                           "temperature": 0, "stream_options": {"include_usage": True}})
            text = connection.getresponse().read().decode()
            connection.close()
            assert text.endswith("data: [DONE]\n\n"), text[-200:]
            counts.append(int(text.split('"completion_tokens":')[1].split(",")[0].split("}")[0]))
        except Exception as error:  # told in the thread that can fail
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(BUSY)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    assert counts == [tokens] * BUSY, counts
    return BUSY * tokens / (time.monotonic() - begin)


def written(url):
    return metric(url, "vllm:generation_tokens_total")


def watch_second_half(url, pid, before, tokens):
    """Tokens a second, and tokens a second of processor time, while the busy answers, before which the server had
    written so many, are in their second half."""
    moments = []
    for part in (0.5, 0.95):
        wait_for(lambda: written(url) >= before + part * BUSY * tokens, pause=0.1)
        moments.append((time.monotonic(), processor_seconds(pid), written(url)))
    (begin, used_before, first), (end, used, last) = moments
    return ((last - first) / (end - begin), (last - first) / (used - used_before)) if last > first else (0.0, 0.0)


class Busy:
    """Eight answers at once, in a thread of their own."""

    def __init__(self, url, tokens):
        self.failures = []
        self.before = written(url)
        self.thread = threading.Thread(target=self.run, args=(url, tokens))
        self.thread.start()
        # They hold all places, so that whoever comes now waits until they are done.
        wait_for(lambda: not self.runs() or metric(url, "oort:num_requests_running") >= BUSY)

    def run(self, url, tokens):
        try:
            run_busy(url, tokens)
        except Exception as error:  # told in the thread that can fail
            self.failures.append(error)

    def runs(self):
        return self.thread.is_alive()

    def join(self):
        self.thread.join()
        if self.failures:
            raise self.failures[0]


def measure(url, pid, streams, tokens, speed):
    """Tokens a second of the busy ones alone and beside the others (by the clock, and of processor time, which tells
    more where others use the machine), bytes that the others take, times of /health."""
    alone = beside = (None, None)
    busy = Busy(url, tokens)
    if speed:
        alone = watch_second_half(url, pid, busy.before, tokens)
    busy.join()
    before = memory(pid)
    busy = Busy(url, tokens)
    body = request_bytes({"prompt": "Once upon a time", "max_tokens": 4, "stream": True})
    peers = []
    for _ in range(streams):
        peer = socket.create_connection(address(url), timeout=SECONDS)
        peer.sendall(body)
        peers.append(peer)
    if speed:
        assert written(url) < busy.before + BUSY * tokens / 2, "the streams opened too late: give --tokens more"
        beside = watch_second_half(url, pid, busy.before, tokens)
    health = ask_health(url)
    while busy.runs() and len(health) < 300:
        health += ask_health(url)
    grown = memory(pid) - before
    busy.join()
    for peer in peers:
        peer.close()
    wait_for(lambda: is_idle(url))
    return alone, beside, grown, health


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=200, help="of each busy answer")
    parser.add_argument("--speed", action="store_true", help="measure what the busy ones lose")
    parser.add_argument("--model", default=STORYTELLER)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    raise_file_limit(2 * arguments.streams + 1024)
    options = ("--quiet", "--parallel", BUSY, "--queue", 100000, "--cache-tokens", BUSY * (arguments.tokens + 64))
    mode = {"mode": ()} if arguments.speed else {}  # users neither ask for the exact mode nor for one thread
    with Server(*options, model=arguments.model, **mode) as server:
        alone, beside, grown, health = measure(server.url, server.process.pid, arguments.streams, arguments.tokens,
                                               arguments.speed)
        wait_for(lambda: metric(server.url, "oort:blocks_used") == 0)
        figures = {"streams": arguments.streams, "memory_mb": grown / 1e6, "busy_alone_tps": alone[0],
                   "busy_beside_tps": beside[0], "busy_alone_per_cpu_second": alone[1],
                   "busy_beside_per_cpu_second": beside[1], "health_p50_ms": 1e3 * percentile(health, 0.5),
                   "health_p99_ms": 1e3 * percentile(health, 0.99)}
        print(json.dumps(figures) if arguments.json else
              "{streams} idle streams take {memory_mb:.1f} MB; tokens/s alone: {busy_alone_tps}, beside them: "
              "{busy_beside_tps}; /health {health_p50_ms:.2f} ms, p99 {health_p99_ms:.2f} ms".format(**figures))
        # 20 KB each, and what allocators hold back.
        assert grown < 20e3 * arguments.streams + 8e6, "idle streams take too much memory"
        assert server.stop() == 0


if __name__ == "__main__":
    main()
