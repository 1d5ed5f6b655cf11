#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whether thread teams of several libraries in one process get in each other's way: torch, ONNX Runtime and Oort, each
alone, by turns, and all at once.

    PYTHONPATH=build-test/python bench/python_teams.py [--threads N] [--seconds S] [--json FILE]

It needs numpy and Oort; torch and onnxruntime with onnx are left out where they are not installed. Each library
multiplies the same matrices with N threads. `alone` is the median of a product while nobody else has a thread;
`by turns` that of products which follow each other, one of each library; `at once` is how many products each library
got done while all of them computed in threads of their own, as a share of what it does alone.
"""
import argparse
import json
import statistics
import threading
import time

import numpy

import oort

SIZE = 384


def oort_product(a, b, threads):
    shape = f"({SIZE},{SIZE})f32"
    text = f"7767517\n4 3\npnnx.Input in0 0 1 a #a={shape}\npnnx.Input in1 0 1 b #b={shape}\n"
    net = oort.load((text + "torch.matmul m 2 1 a b y\npnnx.Output out0 1 0 y\n").encode(), threads=threads)
    return lambda: net(a, b)


def torch_product(a, b, threads):
    import torch

    torch.set_num_threads(threads)
    a, b = torch.from_numpy(a), torch.from_numpy(b)
    return lambda: a @ b


def onnxruntime_product(a, b, threads):
    import onnx.helper
    import onnxruntime

    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [SIZE, SIZE]) for name in "aby"]
    node = onnx.helper.make_node("MatMul", ["a", "b"], ["y"])
    graph = onnx.helper.make_graph([node], "product", ports[:2], ports[2:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"a": a, "b": b})


def medians_by_turns(products, seconds):
    """Microseconds of a product of each, one behind the other."""
    times = {name: [] for name in products}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, product in products.items():
            start = time.perf_counter()
            product()
            times[name].append(1e6 * (time.perf_counter() - start))
    return {name: statistics.median(found) for name, found in times.items()}


def at_once(products, seconds):
    """Products a second of each, while all of them compute."""
    counts, start = dict.fromkeys(products, 0), threading.Barrier(len(products))

    def work(name):
        start.wait()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            products[name]()
            counts[name] += 1

    threads = [threading.Thread(target=work, args=(name,)) for name in products]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {name: count / seconds for name, count in counts.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    a, b = (numpy.random.default_rng(seed).random((SIZE, SIZE), numpy.float32) for seed in (1, 2))
    products, alone = {}, {}
    for name, make in (("torch", torch_product), ("onnxruntime", onnxruntime_product), ("oort", oort_product)):
        try:
            products[name] = make(a, b, arguments.threads)
        except ImportError:
            continue
        medians_by_turns({name: products[name]}, 0.3)  # its threads start
        alone[name] = medians_by_turns({name: products[name]}, arguments.seconds)[name]
    report = {"alone_us": alone, "by_turns_us": {}, "at_once_share": {}}
    others = [name for name in products if name != "oort"]
    for name in others:
        pair = {name: products[name], "oort": products["oort"]}
        report["by_turns_us"][f"{name} with oort"] = medians_by_turns(pair, arguments.seconds)
    if len(others) > 1:
        pair = {name: products[name] for name in others}
        report["by_turns_us"][" with ".join(others)] = medians_by_turns(pair, arguments.seconds)
    report["by_turns_us"]["all"] = medians_by_turns(products, arguments.seconds)
    rates = at_once(products, arguments.seconds)
    report["at_once_share"] = {name: rate * alone[name] / 1e6 for name, rate in rates.items()}
    print(json.dumps(report, indent=2))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)


if __name__ == "__main__":
    main()
