#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Clients that leave at every moment, in every way; afterwards the server must be as it was before.

  test/server/disconnects_test.py [--count N] [--seed S]     the measure is --count 10000
"""
import argparse
import collections
import random
import socket
import threading

from server import Server
from watch import SECONDS, address, descriptors, is_idle, memory, metric, request_bytes, wait_for

LONG = {"prompt": "Once upon a time " * 20, "max_tokens": 200, "ignore_eos": True, "stream": True, "temperature": 0}
SHORT = {"prompt": "Once", "max_tokens": 2, "stream": True, "temperature": 0}
PHASES = ("head", "body", "sent", "waiting", "stream", "whole", "pipelined")
ENDS = ("fin", "rst", "half-close")


def take(peer, enough):
    """Reads until there is enough; what was read, less where the server closes."""
    got = b""
    while not enough(got):
        part = peer.recv(65536)
        if not part:
            return got
        got += part
    return got


def leave(where, phase, end, random_):
    whole = request_bytes(SHORT if phase == "whole" else LONG)
    head = whole.index(b"\r\n\r\n") + 4
    with socket.create_connection(where, timeout=SECONDS) as peer:
        if phase == "head":
            peer.sendall(whole[: random_.randrange(1, head)])
        elif phase == "body":
            peer.sendall(whole[: random_.randrange(head, len(whole))])
        else:
            peer.sendall(whole)
        if phase == "pipelined":
            peer.sendall(whole[: random_.randrange(1, len(whole))])
        if phase == "waiting":  # somewhere between the queue and the prompt
            peer.settimeout(random_.random() * 0.05 + 0.001)
            try:
                peer.recv(1)
            except TimeoutError:
                pass
            peer.settimeout(SECONDS)
        if phase == "stream":
            events = random_.randrange(1, 4)
            take(peer, lambda got: got.count(b"data: ") >= events)
        if phase == "whole":
            take(peer, lambda got: got.endswith(b"0\r\n\r\n"))
        if end == "rst":
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        if end == "half-close":
            # Who closes his sending side has left; the server closes the other one.
            peer.shutdown(socket.SHUT_WR)
            try:
                take(peer, lambda _: False)
            except ConnectionResetError:
                pass


def storm(url, count, seed, threads=8):
    where, done, failures, lock = address(url), collections.Counter(), [], threading.Lock()

    def run(number):
        random_ = random.Random(seed * 1000 + number)
        try:
            for i in range(number, count, threads):
                phase, end = PHASES[i % len(PHASES)], ENDS[(i // len(PHASES)) % len(ENDS)]
                leave(where, phase, end, random_)
                with lock:
                    done[phase, end] += 1
        except Exception as error:  # told in the thread that can fail
            failures.append(error)

    workers = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=420)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    # A queue that is never full: a refusal would hide what is to be seen.
    with Server("--quiet", "--parallel", 4, "--queue", 100000) as server:
        pid = server.process.pid
        storm(server.url, max(84, arguments.count // 4), arguments.seed + 1)  # memory that stays is taken once
        wait_for(lambda: is_idle(server.url))
        wait_for(lambda: metric(server.url, "oort:connections") <= 1)
        files, before = descriptors(pid), memory(pid)
        done = storm(server.url, arguments.count, arguments.seed)
        assert sum(done.values()) == arguments.count, done
        assert len(done) == len(PHASES) * len(ENDS) or arguments.count < 21, done
        wait_for(lambda: is_idle(server.url))
        wait_for(lambda: metric(server.url, "oort:blocks_used") == 0)
        # The connection that asks for metrics closes a little later.
        wait_for(lambda: metric(server.url, "oort:connections") <= 1)
        wait_for(lambda: descriptors(pid) <= files)
        grown = memory(pid) - before
        print(f"{arguments.count} disconnects: 0 blocks, 0 descriptors, {grown / 1e6:.2f} MB kept")
        assert grown < 8e6, "memory grew"  # what allocators hold back varies; a leak of requests would be more
        assert server.stop() == 0


if __name__ == "__main__":
    main()
