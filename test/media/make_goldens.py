#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes goldens/: what torchvision, OpenCV, librosa, torchaudio and others make of small pictures and sounds.

    pip install torchvision torchaudio opencv-python-headless librosa soundfile transformers pillow faster-whisper
    test/media/make_goldens.py
"""
import json
import pathlib

import cv2
import faster_whisper
import librosa
import numpy as np
import soundfile
import torch
import torchaudio
import transformers
from PIL import Image
from torchvision import ops
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as tv

HERE = pathlib.Path(__file__).parent / "goldens"
WIDTH, HEIGHT = 37, 23


def save(name, array):
    np.save(HERE / f"{name}.npy", np.ascontiguousarray(array, dtype=np.float32))


def picture():
    """Waves of three lengths with some noise: (height, width, 3) bytes."""
    random = np.random.default_rng(7)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    waves = [128 + 100 * np.sin(x / a + y / b) for a, b in ((3, 5), (7, 2), (11, 4))]
    noise = random.normal(0, 12, (HEIGHT, WIDTH, 3))
    return np.clip(np.stack(waves, 2) + noise, 0, 255).astype(np.uint8)


def resized(pixels):
    image = torch.from_numpy(pixels).permute(2, 0, 1).float()
    for width, height in ((16, 11), (45, 30), (40, 9)):
        for mode in ("bilinear", "bicubic"):
            for antialias in (True, False):
                how = v2.InterpolationMode.BILINEAR if mode == "bilinear" else v2.InterpolationMode.BICUBIC
                out = tv.resize(image, [height, width], interpolation=how, antialias=antialias)
                kind = "smooth" if antialias else "sharp"
                save(f"resize-{mode}-{kind}-{width}x{height}", out.permute(1, 2, 0))
    save("resize-nearest-50x9", tv.resize(image, [9, 50], interpolation=v2.InterpolationMode.NEAREST).permute(1, 2, 0))
    shorter = tv.resize(image, [14], antialias=True)
    save("imagenet-14-12", tv.normalize(
        tv.center_crop(shorter, [12, 12]) / 255, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))  # fmt: skip
    save("center-crop-17x8", tv.center_crop(image, [8, 17]).permute(1, 2, 0))
    save("center-crop-41x29", tv.center_crop(image, [29, 41]).permute(1, 2, 0))


def letterboxed(pixels, side, name):
    """As the programs around YOLO do it: OpenCV's linear resize, gray bars, the odd pixel behind."""
    height, width = pixels.shape[:2]
    ratio = min(side[0] / width, side[1] / height)
    small = round(width * ratio), round(height * ratio)
    across, down = (side[0] - small[0]) / 2, (side[1] - small[1]) / 2
    image = cv2.resize(pixels.astype(np.float32), small, interpolation=cv2.INTER_LINEAR)
    edges = [round(down - 0.1), round(down + 0.1), round(across - 0.1), round(across + 0.1)]
    save(name, cv2.copyMakeBorder(image, *edges, cv2.BORDER_CONSTANT, value=(114, 114, 114)))


def boxes():
    random = np.random.default_rng(3)
    corners = random.uniform(0, 80, (400, 2))
    found = np.concatenate([corners, corners + random.uniform(2, 40, (400, 2))], 1).astype(np.float32)
    scores = random.permutation(400).astype(np.float32) / 400  # no two are equal
    labels = random.integers(0, 4, 400)
    rows = [torch.from_numpy(a) for a in (found, scores, labels)]
    overlaps = ops.box_iou(rows[0][:20], rows[0][20:40])
    save("overlaps", overlaps)
    kept = {
        "by_label": ops.batched_nms(*rows, 0.45).tolist(),
        "all": ops.nms(rows[0], rows[1], 0.3).tolist(),
    }
    save("boxes", np.concatenate([found, scores[:, None], labels[:, None]], 1))
    (HERE / "suppressed.json").write_text(json.dumps(kept) + "\n")


def regions():
    """A map with turned bars, the rectangles of least area that OpenCV finds around them, and one of them cut out."""
    bars = [((30, 20), (40, 9), 0), ((75, 45), (50, 12), 20), ((25, 60), (30, 8), -35), ((70, 80), (30, 10), 90)]
    scene = np.zeros((100, 110), np.float32)
    for bar in bars:
        cv2.fillPoly(scene, [np.int32(np.round(cv2.boxPoints(bar)))], 0.9)
    save("region-map", scene)
    mask = cv2.dilate((scene > 0.3).astype(np.uint8), np.ones((2, 2)))
    found = []
    for contour in cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)[0]:
        (x, y), sides, _ = cv2.minAreaRect(contour)
        found.append([x, y, max(sides), min(sides)])
    save("regions", sorted(found))
    quad = np.float32([[4, 6], [30, 2], [32, 14], [6, 18]])
    pixels = picture().astype(np.float32)
    width, height = (int(np.linalg.norm(quad[0] - quad[i])) for i in (1, 3))
    target = np.float32([[0, 0], [width, 0], [width, height], [0, height]])
    how = {"flags": cv2.INTER_CUBIC, "borderMode": cv2.BORDER_REPLICATE}
    save("crop-quad", cv2.warpPerspective(pixels, cv2.getPerspectiveTransform(quad, target), (width, height), **how))
    save("turned", np.rot90(pixels))


def tone(rate, seconds):
    """A sweep with noise, from -1 to 1."""
    random = np.random.default_rng(11)
    t = np.arange(int(rate * seconds)) / rate
    sound = 0.6 * np.sin(2 * np.pi * (200 + 900 * t) * t) + 0.2 * np.sin(2 * np.pi * 3100 * t)
    return (sound + random.normal(0, 0.02, t.size)).astype(np.float32).clip(-1, 1)


def sounds():
    stereo = np.stack([tone(8000, 0.02), tone(8000, 0.02)[::-1]], 1)
    for kind in ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"):
        path = HERE / f"{kind.lower()}.wav"
        soundfile.write(path, stereo, 8000, subtype=kind)
        save(kind.lower(), soundfile.read(path, dtype="float32")[0].mean(1))
    soundfile.write(HERE / "extensible.wav", stereo, 8000, subtype="PCM_16", format="WAVEX")

    sound = tone(16000, 1.2)
    save("sound", sound)
    for old, new in ((44100, 16000), (8000, 16000), (16000, 11025), (3, 7)):
        save(f"resample-{old}-{new}", torchaudio.functional.resample(torch.from_numpy(sound[:1500]), old, new))
    for name, options in {
        "default": {"n_fft": 512, "hop_length": 160, "n_mels": 40},
        "htk": {"n_fft": 300, "hop_length": 100, "n_mels": 32, "htk": True, "norm": None, "fmin": 50, "fmax": 7000},
        "left": {"n_fft": 441, "hop_length": 220, "n_mels": 20, "center": False, "power": 1.0},
    }.items():
        save(f"mel-{name}", librosa.feature.melspectrogram(y=sound, sr=16000, **options))
    save("mel-filters", librosa.filters.mel(sr=16000, n_fft=400, n_mels=80))
    features = transformers.WhisperFeatureExtractor()(sound, sampling_rate=16000, return_tensors="np")
    whole = features["input_features"][0]
    assert whole.shape == (80, 3000)
    save("whisper", np.concatenate([whole[:, :130:3], whole[:, -4:]], 1))
    save("whisper-whole", faster_whisper.feature_extractor.FeatureExtractor()(sound)[:, ::3])


def main():
    HERE.mkdir(exist_ok=True)
    pixels = picture()
    Image.fromarray(pixels).save(HERE / "picture.png", optimize=True)
    Image.fromarray(pixels).save(HERE / "picture.jpg", quality=97, subsampling=0)
    save("picture-jpg", np.asarray(Image.open(HERE / "picture.jpg")))
    save("gray", cv2.cvtColor(pixels.astype(np.float32), cv2.COLOR_RGB2GRAY)[..., None])
    resized(pixels)
    letterboxed(pixels, (32, 32), "letterbox-32x32")
    letterboxed(pixels, (60, 25), "letterbox-60x25")
    boxes()
    regions()
    sounds()


if __name__ == "__main__":
    main()
