#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the demos or their networks beside onnxruntime, nudenet, rapidocr and faster-whisper, by turns.

    pip install -r tools/requirements.txt onnx onnxruntime opencv-python-headless scikit-image scikit-learn nudenet
    pip install rapidocr-onnxruntime==1.4.4                           for read, and Debian's fonts-wqy-microhei
    pip install faster-whisper soundfile torchaudio                   for listen, and Debian's espeak-ng
    demos/run …                                                  once for each demo, so that the networks are there
    bench/demos.py [NAME…] [--build build] [--machine TEXT]      measures; the figures go into docs/data/demos.json
    bench/demos.py --table                                       writes their table into docs/demos.md

Both sides have two threads, in `read` and `listen` one. A round measures Oort and then the other; the figure is the
median over the rounds.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA, PAGE = ROOT / "docs" / "data" / "demos.json", ROOT / "docs" / "demos.md"
MODELS = ROOT / ".cache" / "models"
BEGIN, END = "<!-- bench/demos.py: begin -->\n", "<!-- bench/demos.py: end -->\n"
THREADS = 2


def checks():
    spec = importlib.util.spec_from_file_location("check_demos", ROOT / "tools" / "check-demos.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def minilm_onnx():
    """The graph that tools/export-encoder.py gives to pnnx, as ONNX by torch."""
    import torch
    import transformers

    path = MODELS / "minilm" / "model.onnx"
    if not path.exists():
        encoder = transformers.AutoModel.from_pretrained(path.parent, attn_implementation="eager").eval()
        inputs = torch.ones(2, 8, dtype=torch.int64), torch.ones(2, 8, dtype=torch.int64)
        axes = {0: "texts", 1: "tokens"}

        class ByName(torch.nn.Module):  # what stands behind the mask differs between versions of transformers
            def forward(self, ids, mask):
                answer = encoder(input_ids=ids, attention_mask=mask)
                return answer.last_hidden_state, answer.pooler_output

        torch.onnx.export(ByName().eval(), inputs, str(path), dynamo=False, input_names=["ids", "mask"],
                          output_names=["hidden", "pooled"], dynamic_axes={"ids": axes, "mask": axes})  # fmt: skip
    return path


def network(name, path, shapes, runs):
    """One round of `oort bench` and one of onnxruntime: milliseconds."""
    theirs = checks().session(path(), THREADS)
    feeds = {}
    for port, shape in zip(theirs.get_inputs(), shapes):
        whole = "int" in port.type
        feeds[port.name] = np.ones(shape, np.int64) if whole else np.random.default_rng(0).random(shape, np.float32)
    options = [f"in{i}=" + ",".join(map(str, shape)) for i, shape in enumerate(shapes)]

    def ours(build):
        command = [build / "oort", "bench", MODELS / name / "model.pnnx.param", "--runs", str(runs)]
        command += ["--threads", str(THREADS)]
        for option in options:
            command += ["--shape", option]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return float(re.search(r"median_ms ([\d.]+)", printed)[1])

    def other(_):
        times = []
        for i in range(runs + 3):
            start = time.perf_counter()
            theirs.run(None, feeds)
            times += [time.perf_counter() - start] if i >= 3 else []
        return 1000 * statistics.median(times)

    return ours, other


def film():
    """`detect` with NudeNet's network on ten pictures, and the package nudenet: milliseconds a picture."""
    import nudenet

    theirs = nudenet.NudeDetector()
    folder = tempfile.TemporaryDirectory()
    paths = checks().photographs(folder.name)

    def ours(build):
        command = [build / "demos" / "detect", MODELS / "nudenet", folder.name, "--out", folder.name + "/out"]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return 1000 / float(re.search(r"pictures, ([\d.]+) a second", printed)[1])

    def other(_):
        start = time.perf_counter()
        for path in paths:
            theirs.detect(str(path))
        return 1000 * (time.perf_counter() - start) / len(paths)

    return ours, other


def child_time(command):
    """Milliseconds of processor time that a program takes with one thread."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def pages():
    """`read` on the ten pages of the checks, and rapidocr: milliseconds a page of one thread, behind loading."""
    sys.path.insert(0, str(ROOT / "tools"))
    import drawn_pages

    folder = tempfile.TemporaryDirectory()
    paths = drawn_pages.write_pages(folder.name)
    theirs = checks().rapid_ocr()
    theirs(str(paths[0]))

    def ours(build):
        command = [build / "demos" / "read", MODELS / "pp-ocr", pathlib.Path(folder.name) / paths[0].name]
        return (child_time([*command, *paths]) - child_time(command)) / len(paths)

    def other(_):
        start = time.process_time()
        for path in paths:
            theirs(str(path))
        return 1000 * (time.process_time() - start) / len(paths)

    return ours, other


def speech(model, recording, *options):
    """`listen` on a recording of the checks, and faster-whisper with the same options, behind loading.

    The figure is processor time of one thread: faster-whisper's threads wait busily, so that with two of them nothing
    is told by their time unless the machine has nothing else to do.
    """
    folder = tempfile.TemporaryDirectory()
    path, samples = list(checks().spoken(folder.name))[recording]
    theirs = checks().faster_whisper_model(MODELS / model, threads=1)

    def spent(build, times):
        sound = pathlib.Path(folder.name) / path.name
        return child_time([build / "demos" / "listen", MODELS / model, *[sound] * times, *options])

    def other(_):
        start = time.process_time()
        segments, _ = theirs.transcribe(samples, **checks().GREEDY)
        list(segments)
        return 1000 * (time.process_time() - start)

    return lambda build: spent(build, 2) - spent(build, 1), other


# name: what it is, the other side, how both sides are made
CASES = {
    "classify": ("MobileNet-v2, 224 x 224", "onnxruntime",
                 lambda: network("mobilenet-v2", checks().mobilenet_onnx, [(1, 3, 224, 224)], 20)),
    "detect": ("YOLO11n, 640 x 640", "onnxruntime",
               lambda: network("yolo11n", lambda: MODELS / "yolo11n" / "model.onnx", [(1, 3, 640, 640)], 6)),
    "film": ("`detect` with YOLOv8n, 320 x 320, from file to boxes", "nudenet", film),
    "read": ("`read`, a page from file to text; time of one thread", "rapidocr", pages),
    "search": ("MiniLM, one text of 32 tokens", "onnxruntime",
               lambda: network("minilm", minilm_onnx, [(1, 32), (1, 32)], 20)),
    "search-32": ("MiniLM, 32 texts of 32 tokens", "onnxruntime",
                  lambda: network("minilm", minilm_onnx, [(32, 32), (32, 32)], 4)),
    "listen": ("`listen` with Whisper base, a sentence; time of one thread", "faster-whisper",
               lambda: speech("whisper-base", 0)),
    "listen-long": ("`listen` with Whisper base, 50 seconds; time of one thread", "faster-whisper",
                    lambda: speech("whisper-base", 4)),
    "listen-fast": ("the same in bf16 (`--fast`)", "faster-whisper in f32",
                    lambda: speech("whisper-base", 4, "--fast")),
    "listen-tiny": ("`listen` with Whisper tiny.en, 50 seconds; time of one thread", "faster-whisper",
                    lambda: speech("whisper-tiny.en", 4)),
}  # fmt: skip


def measure(name, build, rounds, machine):
    what, whom, make = CASES[name]
    ours, other = make()
    pairs = [(ours(build), other(build)) for _ in range(rounds)]
    row = {
        "what": what, "beside": whom, "threads": 1 if name.startswith(("listen", "read")) else THREADS,
        "machine": machine, "rounds": rounds,
        "oort_ms": round(statistics.median(a for a, _ in pairs), 2),
        "other_ms": round(statistics.median(b for _, b in pairs), 2),
        "times_as_fast": round(statistics.median(b / a for a, b in pairs), 2),
    }  # fmt: skip
    figures = json.loads(DATA.read_text()) if DATA.exists() else {}
    figures[name] = row
    DATA.write_text(json.dumps({key: figures[key] for key in CASES if key in figures}, indent=1) + "\n")
    print(json.dumps(row), flush=True)


def table():
    rows = list(json.loads(DATA.read_text()).values())
    lines = []
    for machine in sorted({row["machine"] for row in rows}):
        lines += ["\n"] if lines else []
        lines += [f"{machine}; f32; medians of rounds by turns, in milliseconds.\n", "\n",
                  "| what | Oort | other | | times as fast |\n", "|---|---:|---:|---|---:|\n"]  # fmt: skip
        for row in rows:
            figures = f"{row['oort_ms']} | {row['other_ms']} | {row['beside']} | {row['times_as_fast']:.2f}"
            lines += [f"| {row['what']} | {figures} |\n"] if row["machine"] == machine else []
    text = PAGE.read_text()
    head, rest = text.split(BEGIN)
    PAGE.write_text(head + BEGIN + "\n" + "".join(lines) + "\n" + END + rest.split(END)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: " + " ".join(CASES))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", metavar="FOLDER")
    parser.add_argument("--machine", default="this machine", metavar="TEXT", help="what the table says of it")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--table", action="store_true", help="only writes the table")
    arguments = parser.parse_args()
    if not arguments.table:
        for name in arguments.names or CASES:
            measure(name, arguments.build.resolve(), arguments.rounds, arguments.machine)
    table()
    return 0


if __name__ == "__main__":
    sys.exit(main())
