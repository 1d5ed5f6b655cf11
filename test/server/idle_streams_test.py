#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Many streams that wait beside a few that run: what they cost, and that nobody is harmed.

  test/server/idle_streams_test.py [--streams N] [--model FILE]     the measure is --streams 2000
"""
import argparse
import json
import resource
import socket
import threading
import time
import urllib.request

from server import STORYTELLER, Server
from watch import SECONDS, address, is_idle, memory, metric, open_stream, percentile, request_bytes, wait_for

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


def ask_health(url):
    begin = time.monotonic()
    urllib.request.urlopen(url + "/health", timeout=SECONDS).close()
    return [time.monotonic() - begin]


def measure(url, pid, streams, tokens):
    """Tokens a second of the busy ones alone and beside the others, bytes that the others take, times of /health."""
    run_busy(url, tokens)
    alone = run_busy(url, tokens)
    before = memory(pid)
    rates, failures = [], []

    def run():
        try:
            rates.append(run_busy(url, tokens))
        except Exception as error:  # told in the thread that can fail
            failures.append(error)

    runner = threading.Thread(target=run)
    runner.start()
    # They hold all places, so that whoever comes now waits until they are done.
    wait_for(lambda: failures or not runner.is_alive() or metric(url, "oort:num_requests_running") >= BUSY)
    body = request_bytes({"prompt": "Once upon a time", "max_tokens": 4, "stream": True})
    peers = []
    for _ in range(streams):
        peer = socket.create_connection(address(url), timeout=SECONDS)
        peer.sendall(body)
        peers.append(peer)
    health = ask_health(url)
    while runner.is_alive() and len(health) < 300:
        health += ask_health(url)
    grown = memory(pid) - before
    runner.join()
    for peer in peers:
        peer.close()
    if failures:
        raise failures[0]
    wait_for(lambda: is_idle(url))
    return alone, rates[0], grown, health


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=200, help="of each busy answer")
    parser.add_argument("--model", default=STORYTELLER)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * arguments.streams + 1024), hard))
    options = ("--quiet", "--parallel", BUSY, "--queue", 100000, "--cache-tokens", BUSY * (arguments.tokens + 64))
    with Server(*options, model=arguments.model) as server:
        alone, beside, grown, health = measure(server.url, server.process.pid, arguments.streams, arguments.tokens)
        wait_for(lambda: metric(server.url, "oort:blocks_used") == 0)
        figures = {"streams": arguments.streams, "memory_mb": grown / 1e6, "busy_alone_tps": alone,
                   "busy_beside_tps": beside, "health_p50_ms": 1e3 * percentile(health, 0.5),
                   "health_p99_ms": 1e3 * percentile(health, 0.99)}
        print(json.dumps(figures) if arguments.json else
              "{streams} idle streams take {memory_mb:.1f} MB; {busy_alone_tps:.0f} tokens/s alone, {busy_beside_tps:.0f} "
              "beside them; /health {health_p50_ms:.2f} ms, p99 {health_p99_ms:.2f} ms".format(**figures))
        # 20 KB each, and what allocators hold back.
        assert grown < 20e3 * arguments.streams + 8e6, "idle streams take too much memory"
        assert server.stop() == 0


if __name__ == "__main__":
    main()
