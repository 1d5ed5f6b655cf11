#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the demos with trained networks against onnxruntime, torch and others, on ten inputs each.

    pip install -r tools/requirements.txt onnx onnxruntime opencv-python-headless scikit-image scikit-learn
    pip install rapidocr-onnxruntime==1.4.4                   for read, and Debian's fonts-wqy-microhei
    pip install faster-whisper soundfile torchaudio           for listen, and Debian's espeak-ng, which speaks
    demos/run …                     once for each demo, so that the networks are there
    tools/check-demos.py [NAME…] [--demos build/demos]

The pictures are those of scikit-image and scikit-learn, turned and cut; pages of text are drawn by drawn_pages.py; the
passages are this repository's documents.
Fails unless classes, boxes, pixels, lines of text, the order of passages, words and times are the same.
"""
import argparse
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unicodedata

os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import numpy as np  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / ".cache" / "models"
COUNT = 10
QUESTIONS = [
    "Which operator is slow?", "How do I install it?", "Can it run on a GPU?", "answers that keep to a JSON schema",
    "less memory by fewer bits", "several requests at the same time", "What happens to broken files?",
    "write my own operator", "threads of a session", "How are passages of text turned into vectors?",
]  # fmt: skip

LONG = (
    "The comet came back after seventy six years. Nobody had expected it so early, and the astronomers were surprised. "
    "They looked through their telescopes for many nights and wrote down what they saw. In the morning they drank "
    "strong coffee and compared their notes. Some of them had seen a tail of green light, others had only seen clouds. "
)
# Voice, words a minute, and what is said; a number is seconds of silence.
SPEECH = [
    ("en-us", 140, ["Good morning. Please open the window and close the door."]),
    ("en-gb", 160, ["My phone number is five five five, one two three four. Call me on Monday at ten o'clock."]),
    ("en-us+f3", 150, ["The engine reads a model file, plans its memory, and runs the operators one by one."]),
    ("en-gb+m3", 120, [3.5, "First we wait.", 6.0, "Then we speak again, after a long silence.", 4.0]),
    ("en-us", 150, [LONG, 5.0, LONG]),
    ("de", 140, ["Guten Morgen. Heute scheint die Sonne, und wir fahren mit dem Zug nach Berlin."]),
    ("fr", 140, ["Bonjour. Le train pour Paris part à huit heures du matin."]),
    ("es", 140, ["Buenos días. Mañana vamos a la playa con nuestros amigos."]),
    ("it", 140, ["Buongiorno. Il gatto dorme sul tavolo della cucina."]),
    ("en-us", 170, [LONG + LONG, 2.5, "That is all for today."]),
]


def tool(name):
    """Another script of this folder as a module."""
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def photographs(folder):
    """Ten pictures as files."""
    import skimage.data
    import sklearn.datasets

    whole = [skimage.data.astronaut(), skimage.data.chelsea(), skimage.data.coffee(), skimage.data.rocket(),
             *sklearn.datasets.load_sample_images().images]  # fmt: skip
    whole += [whole[0][:300, 100:], whole[1][:, ::-1], whole[2][60:, 90:520], whole[2].swapaxes(0, 1)]
    from PIL import Image

    paths = []
    for i, pixels in enumerate(whole[:COUNT]):
        paths.append(pathlib.Path(folder) / f"{i}.png")
        Image.fromarray(np.ascontiguousarray(pixels)).save(paths[-1])
    return paths


def pixels_of(path):
    from PIL import Image

    return np.asarray(Image.open(path).convert("RGB")).astype(np.float32)


def run(command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def session(path, threads=2):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def mobilenet_onnx():
    """MobileNet-v2 with its normalisation, as ONNX by torch."""
    import torch
    import torchvision

    path = MODELS / "mobilenet-v2" / "model.onnx"
    if not path.exists():
        network = torchvision.models.mobilenet_v2()
        network.load_state_dict(torch.load(path.with_name("weights.pth"), weights_only=True))
        module = tool("export-model").normalized(network.eval())
        torch.onnx.export(module, (torch.rand(1, 3, 224, 224),), str(path), dynamo=False)
    return path


def check_classify(demos):
    import torch
    from torchvision.transforms.v2 import functional as tv

    labels = (MODELS / "mobilenet-v2" / "labels.txt").read_text().splitlines()
    theirs = session(mobilenet_onnx())
    with tempfile.TemporaryDirectory() as folder:
        for path in photographs(folder):
            printed = run([demos / "classify", MODELS / "mobilenet-v2", path])
            found = re.findall(r"^ +([\d.]+) %  (.*?) *[█▏▎▍▌▋▊▉]*$", printed, re.MULTILINE)
            if len(found) != 5:
                yield f"classify {path.name}: {len(found)} classes"
            image = torch.from_numpy(pixels_of(path)).permute(2, 0, 1)
            middle = tv.center_crop(tv.resize(image, [256], antialias=True), [224, 224])
            scores = torch.from_numpy(theirs.run(None, {theirs.get_inputs()[0].name: middle[None].numpy() / 255})[0])
            wanted = scores.softmax(1)[0].sort(descending=True)
            for (percent, label), value, index in zip(found, wanted.values.tolist(), wanted.indices.tolist()):
                if abs(float(percent) - 100 * value) > 0.1 or label != labels[index]:
                    yield f"classify {path.name}: {percent} % {label} instead of {100 * value:.1f} % {labels[index]}"


def check_detect(demos):
    import cv2
    import torch
    from torchvision import ops

    labels = (MODELS / "yolo11n" / "labels.txt").read_text().splitlines()
    theirs = session(MODELS / "yolo11n" / "model.onnx")
    with tempfile.TemporaryDirectory() as folder:
        for path in photographs(folder):
            printed = run([demos / "detect", MODELS / "yolo11n", path, "--out", pathlib.Path(folder) / "out"])
            found = re.findall(r"^  ([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)  (.+)$", printed, re.MULTILINE)
            pixels = pixels_of(path)
            ratio = min(640 / pixels.shape[1], 640 / pixels.shape[0])
            small = round(pixels.shape[1] * ratio), round(pixels.shape[0] * ratio)
            left, top = (640 - small[0]) // 2, (640 - small[1]) // 2
            frame = np.full((640, 640, 3), 114, np.float32)
            frame[top : top + small[1], left : left + small[0]] = cv2.resize(pixels, small)
            output = theirs.run(None, {"images": frame.transpose(2, 0, 1)[None] / 255})[0][0]
            rows = torch.from_numpy(output).T
            scores, kinds = rows[:, 4:].max(1)
            keep = scores > 0.25
            boxes = ops.box_convert(rows[keep, :4], "cxcywh", "xyxy")
            kept = ops.batched_nms(boxes, scores[keep], kinds[keep], 0.45).tolist()
            wanted = [
                ((boxes[i].numpy() - [left, top, left, top]) / ratio, scores[keep][i], labels[kinds[keep][i]])
                for i in kept
            ]
            if len(found) != len(wanted):
                yield f"detect {path.name}: {len(found)} boxes instead of {len(wanted)}"
            for row, (box, score, label) in zip(found, wanted):
                box = box.clip(0, [pixels.shape[1], pixels.shape[0]] * 2)
                far = np.abs(np.array(row[1:5], float) - box).max()
                if row[-1] != label or far > 0.5 or abs(float(row[0]) - score) > 2e-3:
                    yield f"detect {path.name}: {row} instead of {label} {float(score):.3f} {box}"


def check_upscale(demos):
    import torch

    folder = MODELS / "realesr-x4"
    module = tool("export-model").compact_upscaler(folder / "ncnn.param", folder / "ncnn.bin")
    from PIL import Image

    with tempfile.TemporaryDirectory() as scratch, torch.no_grad():
        small, large = pathlib.Path(scratch) / "small.png", pathlib.Path(scratch) / "large.png"
        for i, path in enumerate(photographs(scratch)):
            pixels = pixels_of(path)[40 : 110 - i, 50 : 140 + i]
            Image.fromarray(pixels.astype(np.uint8)).save(small)
            run([demos / "upscale", folder, small, large, "--tile", "48"])
            wanted = module(torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255)[0].permute(1, 2, 0) * 255
            far = np.abs(pixels_of(large) - wanted.clamp(0, 255).numpy()).max()
            if far > 1:
                yield f"upscale {path.name}: a pixel differs by {far:.2f}"


def rapid_ocr(**options):
    """rapidocr with onnxruntime on one thread."""
    import cv2
    import rapidocr_onnxruntime

    cv2.setNumThreads(1)
    return rapidocr_onnxruntime.RapidOCR(intra_op_num_threads=1, inter_op_num_threads=1, **options)


def letters(text):
    """Without spaces, and wide signs as their narrow ones: networks are often undecided between these."""
    return unicodedata.normalize("NFKC", text).replace(" ", "")


def differences(found, wanted):
    """What differs between lines of the demo and of rapidocr.

    Boxes are told in whole pixels. Where an edge is one pixel further out, the network sees another picture, and the
    score of the same text has been up to 0.05 apart.
    """
    if len(found) != len(wanted):
        yield f"{len(found)} lines instead of {len(wanted)}"
    for (score, *box, text), (corners, right_text, right_score) in zip(found, wanted):
        extents = [*np.min(corners, 0).tolist(), *np.max(corners, 0).tolist()]
        if letters(text) != letters(right_text):
            yield f"'{text}' instead of '{right_text}'"
        if np.abs(np.array(box, float) - extents).max() > 1:
            yield f"'{text}' at {' '.join(box)} instead of {extents}"
        if text == right_text and abs(float(score) - float(right_score)) > 0.06:
            yield f"'{text}' with a score of {score} instead of {float(right_score):.3f}"


def check_read(demos):
    import drawn_pages

    # In a batch of rapidocr, lines are as wide as the longest, which changes what the network sees of the others.
    theirs = rapid_ocr(cls_batch_num=1, rec_batch_num=1)
    with tempfile.TemporaryDirectory() as folder:
        for path in drawn_pages.write_pages(folder):
            printed = run([demos / "read", MODELS / "pp-ocr", path])
            found = re.findall(r"^  ([\d.]+) +(\d+) +(\d+) +(\d+) +(\d+)  (.+)$", printed, re.MULTILINE)
            wanted = theirs(str(path))[0]
            if not wanted:
                yield f"read {path.name}: rapidocr finds nothing"
            yield from (f"read {path.name}: {fault}" for fault in differences(found, wanted or []))


def check_search(demos):
    import sentence_transformers

    encoder = sentence_transformers.SentenceTransformer(str(MODELS / "minilm"), device="cpu")
    pages = [ROOT / "docs" / name for name in ("profiling.md", "networks.md", "sampling.md")]
    with tempfile.TemporaryDirectory() as index:
        run([demos / "search", "index", MODELS / "minilm", index, *pages])
        lines = (pathlib.Path(index) / "passages.txt").read_text().splitlines()
        texts = [line.split("\t", 2)[2] for line in lines]
        vectors = encoder.encode(texts, normalize_embeddings=True)
        for question in QUESTIONS:
            printed = run([demos / "search", "find", MODELS / "minilm", index, question, "--top", "10"])
            found = re.findall(r"^([-\d.]+)  .*\n    (.*)$", printed, re.MULTILINE)
            scores = vectors @ encoder.encode([question], normalize_embeddings=True)[0]
            order = np.argsort(-scores, kind="stable")[:10]
            if len(found) != 10:
                yield f"search '{question}': {len(found)} passages"
            # Two passages of one score to six digits may stand in either order.
            for (ours, text), i in zip(found, order):
                apart = abs(scores[texts.index(text)] - scores[i])
                if abs(float(ours) - scores[i]) > 1e-4 or (text != texts[i] and apart > 1e-6):
                    yield f"search '{question}': {ours} {text[:40]} instead of {scores[i]:.4f} {texts[i][:40]}"


def spoken(folder):
    """Ten recordings of espeak-ng as files, and their samples at 16 kHz."""
    import soundfile
    import torch
    import torchaudio

    part = pathlib.Path(folder) / "part.wav"
    for i, (voice, speed, texts) in enumerate(SPEECH):
        pieces, rate = [], 22050
        for text in texts:
            if isinstance(text, float):
                pieces.append(np.zeros(int(text * rate), np.int16))
                continue
            run(["espeak-ng", "-v", voice, "-s", speed, "-w", part, text])
            samples, rate = soundfile.read(part, dtype="int16")
            pieces.append(samples)
        path = pathlib.Path(folder) / f"{i}.wav"
        soundfile.write(path, np.concatenate(pieces), rate)
        samples = torch.from_numpy(soundfile.read(path, dtype="float32")[0])
        yield path, torchaudio.functional.resample(samples, rate, 16000).numpy()


def faster_whisper_model(folder, threads=2):
    """faster-whisper in f32 with the version of silero-vad that the demo has."""
    import faster_whisper

    voice = faster_whisper.vad.SileroVADModel(str(folder / "voice.onnx"))
    faster_whisper.vad.get_vad_model = lambda: voice
    return faster_whisper.WhisperModel(str(folder), device="cpu", compute_type="float32", cpu_threads=threads)


GREEDY = {"beam_size": 1, "temperature": 0, "condition_on_previous_text": False, "vad_filter": True}


def check_listen(demos):
    folder = MODELS / "whisper-base"
    theirs = faster_whisper_model(folder)
    with tempfile.TemporaryDirectory() as scratch:
        for path, samples in spoken(scratch):
            printed = run([demos / "listen", folder, path])
            rows = re.findall(r"^ +([\d.]+) +([\d.]+) (.*)$", printed, re.MULTILINE)
            found = [(float(begin), float(end), text) for begin, end, text in rows]
            segments, about = theirs.transcribe(samples, **GREEDY)
            wanted = [(round(s.start, 2), round(s.end, 2), s.text) for s in segments]
            if f"language: {about.language}\n" not in printed:
                yield f"listen {path.name}: another language than {about.language}"
            if found != wanted:
                yield f"listen {path.name}: {found} instead of {wanted}"


CHECKS = {"classify": check_classify, "detect": check_detect, "upscale": check_upscale, "read": check_read,
          "search": check_search, "listen": check_listen}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: " + " ".join(CHECKS))
    parser.add_argument("--demos", type=pathlib.Path, default=ROOT / "build" / "demos", metavar="FOLDER")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(CHECKS)
    if unknown:
        parser.error(f"no such demo: {' '.join(sorted(unknown))}")
    sys.path.insert(0, str(ROOT / "tools"))
    failed = False
    for name in arguments.names or CHECKS:
        faults = list(CHECKS[name](arguments.demos.resolve()))
        failed |= bool(faults)
        print("\n".join(faults) if faults else f"{name}: ten inputs, the same answers", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
