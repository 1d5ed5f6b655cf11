#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a call of a network costs from Python: Oort beside ONNX Runtime and ncnn, by turns in one process.

    PYTHONPATH=build-test/python bench/python_calls.py --oort build-test/oort [--calls N] [--json FILE]

It needs numpy, torch, onnx, onnxruntime, ncnn and pnnx. Two networks, one thread each: one relu over 784 numbers, which
takes a microsecond at most in each of them, so that its call is nearly all overhead, and a network of the shape of
models/digits. Of Oort it also tells what a call from C++ takes (`oort bench`), and of the import. Streaming is compared
with `oort bench-llm` on models/storyteller or --model, by medians of turns. Times of calls are the least of all, since
the machine may be busy.
"""
import argparse
import collections
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def digit_net(torch):
    """As in models/digits, with random weights."""
    functional = torch.nn.functional

    class Block(torch.nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1 = torch.nn.Conv2d(inputs, outputs, 3, stride, padding=1)
            self.conv2 = torch.nn.Conv2d(outputs, outputs, 3, padding=1)
            same = stride == 1 and inputs == outputs
            self.shortcut = torch.nn.Identity() if same else torch.nn.Conv2d(inputs, outputs, 1, stride)

        def forward(self, x):
            return functional.relu(self.conv2(functional.relu(self.conv1(x))) + self.shortcut(x))

    parts = {  # with names, which pnnx makes names of Python of
        "stem": torch.nn.Conv2d(1, 16, 3, padding=1), "relu": torch.nn.ReLU(), "one": Block(16, 16, 1),
        "two": Block(16, 32, 2), "three": Block(32, 64, 2), "pool": torch.nn.AdaptiveAvgPool2d(1),
        "flat": torch.nn.Flatten(), "head": torch.nn.Linear(64, 10),
    }  # fmt: skip
    return torch.nn.Sequential(collections.OrderedDict(parts))


def export(name, folder):
    """The network for all three: model.pnnx.*, model.ncnn.* and model.onnx."""
    import pnnx
    import torch

    torch.manual_seed(1)
    module = torch.nn.ReLU() if name == "relu" else digit_net(torch)
    x = torch.rand(1, 1, 28, 28)
    path = os.path.join(folder, "model.pt")
    pnnx.export(module.eval(), path, (x,), fp16=False)
    torch.onnx.export(module, (x,), os.path.join(folder, "model.onnx"), dynamo=False, opset_version=17)


def oort_call(folder):
    import oort

    net = oort.load(os.path.join(folder, "model.pnnx.param"), threads=1)
    return net


def onnxruntime_call(folder):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    path = os.path.join(folder, "model.onnx")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda x: session.run(None, {name: x})[0]


def ncnn_call(folder):
    import ncnn
    import numpy

    net = ncnn.Net()
    net.opt.num_threads = 1
    stem = os.path.join(folder, "model.ncnn")
    if net.load_param(stem + ".param") != 0 or net.load_model(stem + ".bin") != 0:
        raise RuntimeError("ncnn cannot read what pnnx wrote")

    def call(x):
        image = ncnn.Mat(x[0]).clone()  # it computes in place, and does not keep the array
        extractor = net.create_extractor()
        extractor.input("in0", image)
        return numpy.array(extractor.extract("out0")[1])

    return call


def by_turns(calls, x, count):
    """Microseconds of each: the least of all calls, as `oort bench` tells it."""
    least = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        for _ in range(20):
            call(x)
    for _ in range(count // 50):
        for name, call in calls.items():
            for _ in range(50):
                start = time.perf_counter_ns()
                call(x)
                least[name] = min(least[name], (time.perf_counter_ns() - start) / 1e3)
    return least


def cpp_call(program, folder):
    """The least time of a Forward from C++, in microseconds."""
    command = [program, "bench", os.path.join(folder, "model.pnnx.param"), "--threads", "1", "--runs", "2000", "--json"]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return 1000 * report["min_ms"]


def calls(program, count):
    import numpy

    x = numpy.random.default_rng(1).random((1, 1, 28, 28), numpy.float32)
    report = {}
    for name in ("relu", "digits"):
        with tempfile.TemporaryDirectory() as folder:
            export(name, folder)
            made = {"oort": oort_call(folder), "onnxruntime": onnxruntime_call(folder), "ncnn": ncnn_call(folder)}
            answers = [numpy.ravel(call(x)) for call in made.values()]
            assert all(numpy.allclose(answers[0], other, atol=1e-2) for other in answers)
            row = by_turns(made, x, count)
            before = cpp_call(program, folder)
            row["oort from C++"] = min(before, cpp_call(program, folder))
            report[name] = row
    return report


def processor_seconds(command):
    """Those that a program takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, json.loads(text)


def streaming(program, path, turns, threads):
    """Python's stream beside bench-llm, by turns, medians: tokens a second by the clock, and what the engine's threads
    take a token, which a busy machine does not change as much."""
    import oort

    model = oort.LanguageModel(path, threads=threads, cache_tokens=1024, reuse_prefixes=False)
    prompt = [1 + i % 100 for i in range(128)]
    few, many, answers = 16, 272, 10

    def stream(tokens):
        """Tokens a second of each answer, and processor seconds of all threads but this one, which reads."""
        rates, start = [], time.process_time() - time.thread_time()
        for _ in range(answers):
            pieces = model.generate(prompt, max_tokens=tokens + 1, ignore_end=True, stream=True)
            for _ in pieces:
                pass
            rates.append(tokens / pieces.result().timings.generate)
        return rates, time.process_time() - time.thread_time() - start

    def bench(tokens):
        command = [program, "bench-llm", path, "--prompt-tokens", "128", "--new-tokens", str(tokens)]
        command += ["--rounds", str(answers), "--threads", str(threads), "--json"]
        seconds, report = processor_seconds(command)
        return report["decode_rounds"], seconds

    rates = {"python": [], "bench-llm": []}
    seconds = {"python": [], "bench-llm": []}
    stream(few)
    for _ in range(turns):
        for name, run in (("python", stream), ("bench-llm", bench)):
            short, (found, long) = run(few)[1], run(many)
            rates[name].append(statistics.median(found))
            seconds[name].append((long - short) / (many - few) / answers)
    report = {name: {"tokens_per_second": statistics.median(rates[name]),
                     "processor_us_a_token": 1e6 * statistics.median(seconds[name])} for name in rates}  # fmt: skip
    pairs = zip(rates["python"], rates["bench-llm"])
    report["ratio"] = statistics.median(python / engine for python, engine in pairs)
    pairs = zip(seconds["python"], seconds["bench-llm"])
    report["ratio_by_processor"] = statistics.median(engine / python for python, engine in pairs)
    return report


def import_seconds():
    program = "import time; t = time.perf_counter(); import oort; print(time.perf_counter() - t)"
    command = [sys.executable, "-c", program]
    return min(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(9))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oort", default="build-test/oort", help="the program, of the same build as the package")
    parser.add_argument("--calls", type=int, default=20000)
    parser.add_argument("--rounds", type=int, default=5, help="of streaming")
    parser.add_argument("--threads", type=int, default=1, help="of streaming")
    parser.add_argument("--model", default=os.path.join(ROOT, "models/storyteller"))
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    report = {
        "import_seconds": import_seconds(),
        "streaming": streaming(arguments.oort, arguments.model, arguments.rounds, arguments.threads),
        "calls_us": calls(arguments.oort, arguments.calls),
    }
    print(json.dumps(report, indent=2))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)


if __name__ == "__main__":
    main()
