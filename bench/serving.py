#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures `oort serve` on this machine and writes docs/data/serving.json and the table of docs/serving.md.

  bench/serving.py MODEL [--oort build/oort] [--client OORT] [--soak FILE] [--no-speed] [--write]

MODEL is a language model with a tokenizer, such as the one of tools/fetch-smollm2. --client is another build of the
program that asks (default: the same). --soak takes in what `test/server/soak.py --json` printed. --no-speed
leaves out what a machine with other work to do cannot tell. Without --write the table is printed only.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import textwrap
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "test/server"
sys.path.insert(0, str(TESTS))
sys.path.insert(0, str(ROOT / "bench"))
from machine_name import processor_name  # noqa: E402

BEGIN, END = "<!-- written by bench/serving.py -->", "<!-- end -->"


class Program:
    """A server of the program under measure, without the options that tests give it."""

    def __init__(self, oort, model, *options):
        self.command = [oort, "serve", model, "--port", "0", "--quiet", *map(str, options)]

    def __enter__(self):
        self.begin = time.monotonic()
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            match = re.search(r" at (http://\S+)", line)
            if match:
                self.url = match.group(1)
                return self
        raise SystemExit("the server did not start")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()


def run_json(*command, **environment):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode != 0:
        raise SystemExit(f"{command}: {done.stderr}")
    return json.loads(done.stdout)


def measure_start(oort, model):
    """Seconds from the start of the program to the first token of an answer."""
    from watch import open_stream

    seconds = []
    for _ in range(5):
        with Program(oort, model) as server:
            connection = open_stream(server.url, {"prompt": "Hello", "max_tokens": 1, "stream": True})
            response = connection.getresponse()
            while not response.readline().startswith(b"data: "):
                pass
            seconds.append(time.monotonic() - server.begin)
            connection.close()
    return statistics.median(seconds)


def measure_one(oort, client, model):
    """Tokens a second of one answer, in process and over HTTP, in turns: others use this machine, too."""
    inside, outside = [], []
    for _ in range(3):
        inside.append(run_json(oort, "bench-llm", model, "--prompt-tokens", 128, "--new-tokens", 128, "--rounds", 3,
                               "--json")["decode_tps"])
        with Program(oort, model) as server:
            load = run_json(client, "bench-serve", server.url, "--concurrency", 1, "--requests", 4, "--prompt-tokens",
                            128, "--new-tokens", 128, "--json")["loads"][0]
            outside.append(1e3 / load["tpot_ms"]["p50"])
    return max(inside), max(outside)


def measure_many(oort, client, model, clients):
    with Program(oort, model, "--cache-tokens", 300 * clients) as server:
        return run_json(client, "bench-serve", server.url, "--concurrency", clients, "--prompt-tokens", 128,
                        "--new-tokens", 128, "--json")["loads"][0]


def thread_seconds(pid):
    """Processor time of each thread."""
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return {task.name: int((task / "schedstat").read_text().split()[0]) / 1e9 for task in tasks}


def measure_share(oort, client, model, clients):
    """What HTTP, JSON and text take of the processor beside one thread of the engine, as a share of that. Unlike a rate
    it can be told on a machine that others use."""
    with Program(oort, model, "--threads", 1, "--cache-tokens", 300 * clients) as server:
        def load(new_tokens):
            run_json(client, "bench-serve", server.url, "--concurrency", clients, "--requests", max(2, clients),
                     "--warm-up", 0, "--prompt-tokens", 16, "--new-tokens", new_tokens, "--json")

        load(4)
        before = thread_seconds(server.process.pid)
        load(96)
        after = thread_seconds(server.process.pid)
        taken = sorted(seconds - before.get(task, 0) for task, seconds in after.items())
        return sum(taken[:-1]) / taken[-1]


PERSON = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "tags": {
    "type": "array", "items": {"type": "string"}}}, "required": ["name", "age", "tags"], "additionalProperties": False}
CONSTRAINTS = {
    "none": {"ignore_eos": True},
    "schema": {"guided_json": {"type": "array", "items": PERSON, "minItems": 30}},
    "json_object": {"response_format": {"type": "json_object"}},
    "regex": {"regex": "[a-zA-Z ,.]*", "ignore_eos": True},
}


def measure_constraints(oort, model):
    """Processor time of a token of an answer that keeps to a form, against that of a free one; by turns."""
    from watch import open_stream

    with Program(oort, model, "--threads", 1) as server:
        def milliseconds(constraint, tokens=128):
            before = sum(thread_seconds(server.process.pid).values())
            body = {"prompt": "A list of people as JSON:\n", "max_tokens": tokens, "temperature": 0.8, "seed": 3}
            answer = json.loads(open_stream(server.url, {**body, **constraint}).getresponse().read())
            taken = sum(thread_seconds(server.process.pid).values()) - before
            return 1e3 * taken / answer["usage"]["completion_tokens"]

        for constraint in CONSTRAINTS.values():
            milliseconds(constraint, 16)  # it is compiled once
        turns = [{name: milliseconds(constraint) for name, constraint in CONSTRAINTS.items()} for _ in range(5)]
        median = {name: statistics.median(turn[name] for turn in turns) for name in CONSTRAINTS}
        return {name: time / median["none"] for name, time in median.items() if name != "none"}


def measure_idle(oort, model):
    """The share of a core that a server takes which has answered and has nothing to do."""
    from watch import open_stream, processor_seconds

    with Program(oort, model) as server:
        open_stream(server.url, {"prompt": "Hello", "max_tokens": 4}).getresponse().read()
        time.sleep(1)
        before, begin = processor_seconds(server.process.pid), time.monotonic()
        time.sleep(10)
        return (processor_seconds(server.process.pid) - before) / (time.monotonic() - begin)


def speed_rows(data):
    many = data["clients_12"]
    return [
        ("from the start of the program to the first token", f"{data['start_seconds']:.2f} s"),
        ("one answer: `oort bench-llm`, and through HTTP",
         f"{data['in_process_tps']:.0f} and {data['http_tps']:.0f} tokens/s "
         f"({100 * data['http_tps'] / data['in_process_tps']:.0f} %)"),
        ("12 clients, 128 tokens in and out", f"{many['tokens_per_second']:.0f} tokens/s; "
         f"between pieces of text {many['itl_ms']['p50']:.1f} ms, p99 {many['itl_ms']['p99']:.1f} ms"),
    ]


def slow_count(data):
    return sum(data["slow_http"]["connections"].values())


def table(data):
    idle = data["idle_streams"]
    rows = speed_rows(data) if "http_tps" in data else []
    rows += [
        ("processor time of HTTP, JSON and text beside the engine's", f"{100 * data['share_1']:.1f} % for one client, "
         f"{100 * data['share_12']:.1f} % for 12"),
        ("processor time of a token by a JSON schema, as JSON, by a pattern",
         "{schema:.2f}, {json_object:.2f}, {regex:.2f} times that of a free one".format(**data["constraints"])),
        ("an idle server", f"{100 * data['idle_share']:.1f} % of a core"),
        # By the clock other work decides it.
        (f"8 streams alone, and beside {idle['streams']:,} that wait", f"{idle['busy_alone_per_cpu_second']:,.0f} and "
         f"{idle['busy_beside_per_cpu_second']:,.0f} tokens a second of processor time "
         f"({100 * idle['busy_beside_per_cpu_second'] / idle['busy_alone_per_cpu_second']:.0f} %)"),
        (f"{idle['streams']:,} streams that wait beside 8 that run", f"{idle['memory_mb']:.1f} MB; `/health` takes "
         f"{idle['health_p50_ms']:.1f} ms, p99 {idle['health_p99_ms']:.1f} ms"),
        (f"{slow_count(data):,} slow peers of slowhttptest", "{answers:,} answers beside them, none wrong; "
         "`/health` {health_p50_ms:.1f} ms, p99 {health_p99_ms:.0f} ms".format(**data["slow_http"])),
        (f"{data['disconnects']:,} clients that leave (FIN, RST, half-close, every phase)", data["disconnects_keep"]),
    ]
    if "soak" in data:
        soak = data["soak"]
        rows.append((f"{soak['minutes']:g} minutes of full load with a tenth of faults",
                     f"{soak['answer'] + soak['slow']:,} answers, none wrong; memory {soak['memory_first_mb']:.1f} MB, "
                     f"then {soak['memory_last_mb']:.1f} MB"))
    speed = ("start, speeds, " if "http_tps" in data else "") + "processor time, idle streams and the idle server"
    text = (f"On {data['cores']} cores of {data['machine']}, of which other work took a part: {speed} with "
            f"{data['model']}, the rest with the storyteller.")
    lines = ["", "| what | figure |", "|---|---|"] + [f"| {name} | {figure} |" for name, figure in rows]
    return "\n".join(textwrap.wrap(text, 118) + lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--oort", default=str(ROOT / "build/oort"))
    parser.add_argument("--client")
    parser.add_argument("--soak", type=pathlib.Path)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--disconnects", type=int, default=10_000)
    parser.add_argument("--no-speed", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    oort, client = arguments.oort, arguments.client or arguments.oort
    data = {"machine": processor_name(), "cores": os.cpu_count(), "model": pathlib.Path(arguments.model).stem}
    if not arguments.no_speed:
        data["start_seconds"] = measure_start(oort, arguments.model)
        data["in_process_tps"], data["http_tps"] = measure_one(oort, client, arguments.model)
        load = measure_many(oort, client, arguments.model, 12)
        data["clients_12"] = {name: load[name] for name in ("tokens_per_second", "ttft_ms", "itl_ms", "e2e_ms",
                                                            "failed")}
    data["share_1"], data["share_12"] = (measure_share(oort, client, arguments.model, clients) for clients in (1, 12))
    data["constraints"] = measure_constraints(oort, arguments.model)
    data["idle_share"] = measure_idle(oort, arguments.model)
    data["idle_streams"] = run_json(sys.executable, TESTS / "idle_streams_test.py", "--streams", arguments.streams,
                                    "--model", arguments.model, "--tokens", 1000, "--speed", "--json", OORT=oort)
    data["slow_http"] = run_json(sys.executable, TESTS / "slow_http_test.py", "--connections", 1000, "--seconds", 25,
                                 "--json", OORT=oort)
    done = subprocess.run([sys.executable, TESTS / "disconnects_test.py", "--count", str(arguments.disconnects)],
                          capture_output=True, text=True, env={**os.environ, "OORT": oort})
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    data["disconnects"], data["disconnects_keep"] = arguments.disconnects, done.stdout.strip().split(": ", 1)[1]
    if arguments.soak:
        data["soak"] = json.loads(arguments.soak.read_text())
    print(table(data))
    if arguments.write:
        (ROOT / "docs/data/serving.json").write_text(json.dumps(data, indent=1) + "\n")
        page = ROOT / "docs/serving.md"
        text = page.read_text()
        before, rest = text.split(BEGIN, 1)
        page.write_text(before + BEGIN + "\n\n" + table(data) + "\n\n" + END + rest.split(END, 1)[1])


if __name__ == "__main__":
    main()
