#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What 8 bits cost a trained classifier on pictures of ImageNet, and what they gain: a row of docs/quantization.md.

    tools/quantize-accuracy.py mobilenet_v2 --weights mobilenet_v2-b0353104.pth --pictures FOLDER [--oort build/oort]
    tools/quantize-accuracy.py efficientnet_lite0 --weights efficientnet-lite0-57934424.pth --pictures FOLDER
    tools/quantize-accuracy.py squeezenet1_1 --weights squeezenet_v1.1.bin --pictures FOLDER    # of nihui/ncnn-assets
    tools/quantize-accuracy.py … --peers --json docs/data/quantized-neoverse-v1.json    adds the network's rows there

FOLDER has one picture of each class; sorted by name, their numbers are the classes. Pictures 0, 5, … 495 calibrate;
the 800 whose number is no multiple of 5 judge. Options behind `--` go to `oort quantize`. Needs torch, torchvision,
pnnx, pillow and, for efficientnet_lite0 to 2, efficientnet-lite-pytorch; with --peers onnxruntime, onnx, openvino with
nncf, and ncnn are measured where they are installed: answers on the same pictures, and the time of one, on one thread
by turns. ncnn's own quantizer is no part of its package: bench/int8_files.py writes its files.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "bench"))
import int8_files  # noqa: E402
from machine_name import processor_name  # noqa: E402

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
CAFFE = ((123 / 255, 117 / 255, 104 / 255), (1 / 255, 1 / 255, 1 / 255))
LITE_SIZES = {"efficientnet_lite0": 224, "efficientnet_lite1": 240, "efficientnet_lite2": 260}
TURNS, FORWARDS = 6, 5


def network(name):
    """The module without its weights, mean and deviation of its pixels, and the side of its pictures."""
    if name in LITE_SIZES:
        from efficientnet_lite_pytorch import EfficientNet

        return EfficientNet.from_name(name.replace("_", "-")), HALF, LITE_SIZES[name]
    import torchvision

    numbers = (CAFFE, 227) if name == "squeezenet1_1" else (IMAGENET, 224)
    return getattr(torchvision.models, name)(), *numbers


def caffe_state(path, module):
    """Weights that ncnn's converter took from Caffe: f16 behind a mark, and f32 biases, in the order of the layers."""
    import torch

    data, at, state = path.read_bytes(), 0, {}
    for name, tensor in module.state_dict().items():
        half = name.endswith("weight")
        size = tensor.numel() * (2 if half else 4)
        at += 4 if half else 0
        values = np.frombuffer(data[at : at + size], "<f2" if half else "<f4").astype(np.float32)
        state[name] = torch.from_numpy(values.reshape(tensor.shape))
        at += size + -size % 4
    if at != len(data):
        sys.exit(f"{path} has {len(data)} bytes, and the network takes {at}")
    first = next(iter(state))
    state[first] = state[first].flip(1)  # its pictures are blue, green, red
    return state


def export(name, weights, folder, onnx):
    """model.pnnx.param and, if asked for, model.onnx."""
    import pnnx
    import torch

    module, normalization, size = network(name)
    caffe = weights.suffix == ".bin"
    module.load_state_dict(caffe_state(weights, module) if caffe else torch.load(weights, weights_only=True))
    picture = torch.rand(1, 3, size, size)
    here = os.getcwd()
    os.chdir(folder)
    pnnx.export(module.eval(), "model.pt", (picture,), fp16=False)
    if onnx:
        torch.onnx.export(module, (picture,), "model.onnx", dynamo=False, opset_version=17)
    os.chdir(here)
    return normalization, size


def pixels(path, size):
    """Resized so that the shorter side is 8/7 of it, the middle size x size of it."""
    from PIL import Image

    image = Image.open(path).convert("RGB")
    scale = round(size * 8 / 7) / min(image.size)
    image = image.resize((round(image.width * scale), round(image.height * scale)), Image.BILINEAR)
    left, top = (image.width - size) // 2, (image.height - size) // 2
    return np.asarray(image.crop((left, top, left + size, top + size)), np.float32).transpose(2, 0, 1) / 255


def write_samples(pictures, normalization, size, folder):
    mean, deviation = (np.array(values, np.float32).reshape(3, 1, 1) for values in normalization)
    numbers = {"calibration": range(0, min(500, len(pictures)), 5), "test": [i for i in range(len(pictures)) if i % 5]}
    for name, chosen in numbers.items():
        np.save(folder / f"{name}.npy", np.stack([(pixels(pictures[i], size) - mean) / deviation for i in chosen]))
    np.savetxt(folder / "labels.txt", numbers["test"], fmt="%d")


class Onnxruntime:
    """A .onnx file on one thread."""

    def __init__(self, path):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.name = self.session.get_inputs()[0].name

    def __call__(self, picture):
        return self.session.run(None, {self.name: picture})[0]


class Openvino:
    def __init__(self, path):
        import openvino

        settings = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": 1}
        self.model = openvino.Core().compile_model(str(path), "CPU", settings)
        self.request = self.model.create_infer_request()

    def __call__(self, picture):
        return self.request.infer([picture])[self.model.output(0)]


class Ncnn:
    """What bench/int8_files.py wrote; what stays float is f16, its default."""

    def __init__(self, stem):
        import ncnn

        self.ncnn, self.net = ncnn, ncnn.Net()
        self.net.opt.num_threads = 1
        self.net.opt.use_vulkan_compute = False
        if self.net.load_param(f"{stem}.param") != 0 or self.net.load_model(f"{stem}.bin") != 0:
            raise RuntimeError(f"ncnn cannot read {stem}")

    def __call__(self, picture):
        extractor = self.net.create_extractor()
        extractor.input("in0", self.ncnn.Mat(picture[0]))
        return np.array(extractor.extract("out0")[1]).reshape(1, -1)


class Oort:
    """Only timed: its answers come from the report of `oort quantize`."""

    def __init__(self, program, model, picture):
        self.command = [program, "bench", str(model), "--threads", "1", "--input", str(picture), "--json"]
        self.command += ["--warmup", "1", "--runs", str(FORWARDS)]

    def times(self):
        return json.loads(subprocess.run(self.command, check=True, capture_output=True).stdout)["cpu_times_ms"]


# What writes a runtime's network in 8 bits, and what opens it.
PEERS = {
    "ONNX Runtime": (
        lambda folder: int8_files.onnxruntime_files(folder, "percentile"),
        lambda folder: Onnxruntime(folder / "model.int8.onnx"),
    ),
    "OpenVINO": (int8_files.openvino_files, lambda folder: Openvino(folder / "model.int8.xml")),
    "ncnn": (int8_files.ncnn_files, lambda folder: Ncnn(folder / "model.int8.ncnn")),
}


def quantized_peers(folder, write):
    """Each runtime's network in 8 bits as a function of a picture."""
    peers = {}
    for name, (quantize, open_network) in PEERS.items():
        try:
            if write:
                quantize(folder)
            peers[name] = open_network(folder)
        except ImportError as error:
            print(f"without {name}: {error}", file=sys.stderr)
    return peers


def peer_row(forward, float_answers, labels, test):
    answers = np.concatenate([np.asarray(forward(picture[None])) for picture in test])
    noise = answers.astype(np.float64) - float_answers
    return {
        "right": float(np.mean(answers.argmax(1) == labels)),
        "same": float(np.mean(answers.argmax(1) == float_answers.argmax(1))),
        "sqnr_db": float(10 * np.log10(np.sum(float_answers.astype(np.float64) ** 2) / np.sum(noise**2))),
    }


def forward_times(forward, picture):
    """Processor time of some forwards, in ms."""
    forward(picture)
    times = []
    for _ in range(FORWARDS):
        start = time.process_time()
        forward(picture)
        times.append(1e3 * (time.process_time() - start))
    return times


def judge_peers(folder, rows):
    """Adds a row for each other runtime."""
    test, labels = np.load(folder / "test.npy"), np.loadtxt(folder / "labels.txt", dtype=int)
    np.save(folder / "picture.npy", test[:1])
    original = Onnxruntime(folder / "model.onnx")
    float_answers = np.concatenate([original(picture[None]) for picture in test])
    for name, forward in quantized_peers(folder, True).items():
        rows[name] = peer_row(forward, float_answers, labels, test)
    rows["Oort, f32"] = {"right": rows["Oort"]["float_right"], "same": 1.0}


def times_of_all(program, folder):
    """The time of a picture by runtime, all by turns."""
    picture = folder / "picture.npy"
    ours = {
        "Oort": Oort(program, folder / "int8.pnnx.param", picture),
        "Oort, f32": Oort(program, folder / "model.pnnx.param", picture),
    }
    peers = quantized_peers(folder, False)
    times = {name: [] for name in [*ours, *peers]}
    for _ in range(TURNS):
        for name, runner in ours.items():
            times[name] += runner.times()
        for name, forward in peers.items():
            times[name] += forward_times(forward, np.load(picture))
    return {name: statistics.median(taken) for name, taken in times.items()}


def kept_rows(arguments):
    """What the file says of this network, by runtime."""
    rows = json.loads(arguments.json.read_text(encoding="utf-8"))["rows"]
    rows = [dict(row) for row in rows if row["network"] == arguments.network]
    return {row.pop("runtime"): {key: row[key] for key in row if key != "network"} for row in rows}


def our_row(arguments, folder):
    """Quantizes, and prints the row for the page."""
    command = [arguments.oort, "quantize", folder / "model.pnnx.param", "--output", folder / "int8.pnnx.param"]
    command += ["--json", "--calibrate", folder / "calibration.npy", "--test", folder / "test.npy"]
    command += ["--test-samples", "1000", "--labels", folder / "labels.txt", *arguments.options]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    right, same = report["accuracy"], report["agreement"]
    row = {
        "right": right["right"] / right["labelled"],
        "float_right": right["float_right"] / right["labelled"],
        "same": same["same"] / same["rows"],
        "sqnr_db": report["error"]["sqnr_db"],
    }
    layers = sum(layer["quantized"] for layer in report["layers"])
    print(
        f"| {arguments.network} | {layers} of {len(report['layers'])} | {100 * row['float_right']:.1f} % "
        f"| {100 * row['right']:.1f} % | {100 * row['same']:.1f} % | {row['sqnr_db']:.1f} dB | {report['method']} |",
        flush=True,
    )
    return row


def keep(path, network_name, rows):
    """Replaces what the file says of this network."""
    result = {"about": {}, "rows": []}
    if path.exists():
        result = json.loads(path.read_text(encoding="utf-8"))
    result["about"] = {"machine": processor_name(), "clock": "processor time of one thread, median, ms"}
    result["rows"] = [row for row in result["rows"] if row["network"] != network_name]
    result["rows"] += [{"network": network_name, "runtime": name, **row} for name, row in rows.items()]
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("network")
    parser.add_argument("--weights", required=True, type=pathlib.Path)
    parser.add_argument("--pictures", required=True, type=pathlib.Path)
    parser.add_argument("--oort", default="build/oort", metavar="PROGRAM")
    parser.add_argument("--peers", action="store_true", help="the same of other runtimes, and speed")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="keeps the rows of this network there")
    parser.add_argument("--cache", type=pathlib.Path, metavar="DIR", help="where networks and pictures are kept")
    parser.add_argument("--only-times", action="store_true", help="times what --cache has, and changes them in --json")
    parser.add_argument("options", nargs="*", help="more options of oort quantize, behind --")
    arguments = parser.parse_args()
    if arguments.only_times and not (arguments.cache and arguments.json and arguments.peers):
        parser.error("--only-times needs --peers, and the --cache and --json of a run before")
    return arguments


def main():
    arguments = parse()
    pictures = sorted(path for path in arguments.pictures.iterdir() if path.suffix.lower() in (".jpeg", ".jpg", ".png"))
    if len(pictures) < 10:
        sys.exit(f"{arguments.pictures} has {len(pictures)} pictures")
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.cache or pathlib.Path(temporary)) / arguments.network
        folder.mkdir(parents=True, exist_ok=True)
        if arguments.only_times:
            rows = kept_rows(arguments)
        else:
            normalization, size = export(arguments.network, arguments.weights.resolve(), folder, arguments.peers)
            write_samples(pictures, normalization, size, folder)
            rows = {"Oort": our_row(arguments, folder)}
            if arguments.peers:
                judge_peers(folder, rows)
        if arguments.peers:
            for name, ms in times_of_all(arguments.oort, folder).items():
                rows[name]["ms"] = ms
    if arguments.peers:
        print(json.dumps(rows, indent=1))
    if arguments.json:
        keep(arguments.json, arguments.network, rows)


if __name__ == "__main__":
    main()
