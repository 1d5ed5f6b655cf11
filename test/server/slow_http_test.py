#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""slowhttptest sends heads and bodies byte by byte and reads answers as slowly, all at once, while others ask: their
answers stay the same, /health answers, and nothing is kept when the attack is over. Ends with 77, which ctest takes for
skipped, where slowhttptest (Debian's package of that name) is not installed.

  test/server/slow_http_test.py [--connections N] [--seconds N] [--json]

N connections of each kind. From 12 seconds on the server must have closed heads and bodies that come too slowly.
"""
import argparse
import csv
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from server import Server
from soak import PROMPTS, ask, body_of
from watch import address, ask_health, descriptors, is_idle, memory, metric, percentile, raise_file_limit, wait_for

TOKENS = 40
SECONDS_OF_A_HEAD = 12  # that the server waits for one, and a little more
# How each begins, and where it asks: a body is of a request for text, and an answer has to be long.
ATTACKS = {
    "heads": ("-H", "/health"),
    "bodies": ("-B", "/v1/completions", "-t", "POST", "-f", "application/json", "-s", "8192"),
    "readers": ("-X", "/openapi.json", "-n", "1", "-z", "5", "-w", "1", "-y", "64", "-k", "2"),
}


def start_attack(name, url, connections, seconds, folder):
    kind, path, *options = ATTACKS[name]
    command = ["slowhttptest", kind, *options, "-u", url + path, "-c", connections, "-r", connections, "-i", 1]
    command += ["-l", seconds, "-p", 5, "-g", "-o", folder / name, "-v", 0]
    return subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL)


def outcome(name, folder):
    """What slowhttptest saw: the most connections that were open, those that were closed at last, and whether its own
    requests beside them were answered all the time."""
    rows = list(csv.DictReader((folder / f"{name}.csv").open()))
    available = all(int(row["Service Available"]) > 0 for row in rows)
    return max(int(row["Connected"]) for row in rows), int(rows[-1]["Closed"]), available


class Reader:
    """Asks for texts that are known, one after the other, until told to stop."""

    def __init__(self, where, expected):
        self.where, self.expected, self.answers, self.failures = where, expected, 0, []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            while not self.stop.is_set():
                prompt = PROMPTS[self.answers % len(self.expected)]
                text = ask(self.where, body_of(prompt, TOKENS))
                assert text == self.expected[prompt], (prompt, text)
                self.answers += 1
        except Exception as error:  # told in the thread that can fail
            self.failures.append(repr(error))

    def join(self):
        self.stop.set()
        self.thread.join()
        assert not self.failures, self.failures


def attack(server, connections, seconds, folder):
    """Figures of all three attacks at once."""
    where, pid = address(server.url), server.process.pid
    expected = {prompt: ask(where, body_of(prompt, TOKENS)) for prompt in PROMPTS[:4]}
    wait_for(lambda: metric(server.url, "oort:connections") <= 1)
    files, before = descriptors(pid), memory(pid)
    readers = [Reader(where, expected) for _ in range(2)]
    attacks = [start_attack(name, server.url, connections, seconds, folder) for name in ATTACKS]
    health, most = [], 0
    while any(process.poll() is None for process in attacks):
        health += ask_health(server.url)
        most = max(most, memory(pid))
        time.sleep(0.02)
    for reader in readers:
        reader.join()
    assert all(process.returncode == 0 for process in attacks)
    wait_for(lambda: is_idle(server.url))
    wait_for(lambda: metric(server.url, "oort:connections") <= 1)
    wait_for(lambda: descriptors(pid) <= files)
    seen = {name: outcome(name, folder) for name in ATTACKS}
    assert all(available for _, _, available in seen.values()), seen
    if seconds >= SECONDS_OF_A_HEAD:
        assert seen["heads"][1] > 0 and seen["bodies"][1] > 0, seen
    answers = sum(reader.answers for reader in readers)
    assert answers > 0
    return {"connections": {name: found[0] for name, found in seen.items()}, "answers": answers,
            "closed": {name: found[1] for name, found in seen.items()}, "memory_mb": (most - before) / 1e6,
            "health_p50_ms": 1e3 * percentile(health, 0.5), "health_p99_ms": 1e3 * percentile(health, 0.99)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not shutil.which("slowhttptest"):
        print("skipped: needs slowhttptest", file=sys.stderr)
        sys.exit(77)
    raise_file_limit(4 * arguments.connections + 1024)
    with tempfile.TemporaryDirectory() as folder, Server("--quiet") as server:
        figures = attack(server, arguments.connections, arguments.seconds, pathlib.Path(folder))
        assert server.stop() == 0
    if arguments.json:
        print(json.dumps(figures))
    else:
        print("{answers} answers beside slow {connections}: none wrong; closed by the server {closed}; {memory_mb:.1f} "
              "MB; /health p50 {health_p50_ms:.1f} ms, p99 {health_p99_ms:.1f} ms".format(**figures))


if __name__ == "__main__":
    main()
