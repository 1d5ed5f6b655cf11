#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes demos/: tiny networks of the kinds that the demos run, and what torch answers behind the same preparation.

    pip install -r tools/requirements.txt opencv-python-headless faster-whisper
    test/cli/make_demo_nets.py

Weights are random, so what the networks see means nothing; that they see the same as in torch is what the tests hold.
"""
import json
import pathlib
import sys
import types
import wave

import cv2
import faster_whisper
import numpy as np
import tokenizers
import torch
import transformers
from PIL import Image
from torch import nn
from torchvision import ops
from torchvision.transforms.v2 import functional as tv

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools"))
import pnnx_case  # noqa: E402
import speech_networks  # noqa: E402
import voice_networks  # noqa: E402

PICTURE = HERE.parent / "media" / "goldens" / "picture.png"
SIDE, CLASSES = 28, 3


def picture():
    return np.asarray(Image.open(PICTURE).convert("RGB")).astype(np.float32)


def write(name, module, inputs, labels=None, **options):
    folder = HERE / "demos" / name
    pnnx_case.convert(module, inputs, str(folder), **options)
    if labels:
        (folder / "labels.txt").write_text("\n".join(labels) + "\n")
    return folder


def classifier():
    module = nn.Sequential(nn.Conv2d(3, 8, 5, 2), nn.ReLU(), nn.Conv2d(8, 8, 3, 2), nn.Flatten(),
                           nn.Linear(8 * 25, 7)).eval()
    labels = [f"kind {i}" for i in range(7)]
    folder = write("classify", module, [torch.rand(1, 3, SIDE, SIDE)], labels)
    image = torch.from_numpy(picture()).permute(2, 0, 1)
    middle = tv.center_crop(tv.resize(image, [SIDE * 8 // 7], antialias=True), [SIDE, SIDE])
    scores = module(middle[None] / 255).softmax(1)[0]
    best = [[labels[i], round(100 * scores[i].item(), 2)] for i in scores.argsort(descending=True)[:5]]
    (folder / "answer.json").write_text(json.dumps(best) + "\n")


class Detector(nn.Module):
    """Boxes around the cells of a grid, as the heads of YOLOv8 give them: (1, 4 + classes, cells)."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.SiLU(), nn.Conv2d(8, 4 + CLASSES, 3, padding=1))

    def forward(self, image):
        y = self.body(image).flatten(2)
        centre = 16 + 14 * torch.tanh(3 * y[:, :2])
        size = 4 + 12 * torch.sigmoid(4 * y[:, 2:4])
        return torch.cat([centre, size, torch.sigmoid(6 * y[:, 4:])], 1)


def letterbox(pixels, side):
    """As the programs around YOLO do it."""
    height, width = pixels.shape[:2]
    ratio = min(side / width, side / height)
    small = round(width * ratio), round(height * ratio)
    left, top = (side - small[0]) // 2, (side - small[1]) // 2
    frame = np.full((side, side, 3), 114, np.float32)
    frame[top : top + small[1], left : left + small[0]] = cv2.resize(pixels, small, interpolation=cv2.INTER_LINEAR)
    return frame, ratio, left, top


def detector():
    module = Detector().eval()
    labels = ["circle", "square", "star"]
    folder = write("detect", module, [torch.rand(1, 3, 32, 32)], labels)
    pixels = picture()
    frame, ratio, left, top = letterbox(pixels, 32)
    output = module(torch.from_numpy(frame).permute(2, 0, 1)[None] / 255)[0].T
    scores, kinds = output[:, 4:].max(1)
    boxes = ops.box_convert(output[:, :4], "cxcywh", "xyxy")
    keep = scores > 0.4
    boxes, scores, kinds = boxes[keep], scores[keep], kinds[keep]
    kept = ops.batched_nms(boxes, scores, kinds, 0.45)
    found = []
    for i in kept.tolist():
        corners = (boxes[i].numpy() - [left, top, left, top]) / ratio
        corners = corners.clip(0, [pixels.shape[1], pixels.shape[0]] * 2)
        found.append([round(scores[i].item(), 4), *(round(float(c), 3) for c in corners), labels[kinds[i]]])
    assert 4 < len(found) < len(scores)
    (folder / "answer.json").write_text(json.dumps(found) + "\n")


class Upscaler(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1), nn.PReLU(6), nn.Conv2d(6, 6, 3, padding=1), nn.PReLU(6),
            nn.Conv2d(6, 12, 3, padding=1), nn.PixelShuffle(2),
        )  # fmt: skip

    def forward(self, picture):
        return self.layers(picture) + nn.functional.interpolate(picture, scale_factor=2, mode="nearest")


def upscaler():
    module = Upscaler().eval()
    folder = write("upscale", module, [torch.rand(1, 3, 16, 12)], second=[torch.rand(1, 3, 10, 22)])
    large = module(torch.from_numpy(picture()).permute(2, 0, 1)[None] / 255)[0].permute(1, 2, 0) * 255
    large = large.clamp(0, 255).add(0.5).floor().numpy().astype(np.uint8)
    Image.fromarray(large).save(folder / "answer.png", optimize=True)


class Ink(nn.Module):
    """Where it is dark, as a detector of text says it."""

    def forward(self, picture):
        return torch.sigmoid(-8 * (picture.mean(1, keepdim=True) - 0.2))


class Upright(nn.Module):
    """Every line stands upright."""

    def forward(self, line):
        return torch.softmax(torch.stack([line.mean((1, 2, 3)) * 0 + 3, line.mean((1, 2, 3)) * 0], 1), 1)


class Hues(nn.Module):
    """Steps of eight pixels: nothing where it is light, else the channel that is brightest (blue, green, red)."""

    def forward(self, line):
        means = nn.functional.avg_pool2d(line[:, :, 16:32], (16, 8), (16, 8)).squeeze(2)
        light = 2 * means.min(1, keepdim=True).values + 0.4
        return torch.softmax(12 * torch.cat([light, means], 1).transpose(1, 2), 2)


def reader():
    """Lines of coloured letters: the answer is known without a network."""
    folder = HERE / "demos" / "read"
    pictures = [torch.rand(1, 3, 96, 128)], [torch.rand(1, 3, 128, 64)]
    pnnx_case.convert(Ink().eval(), pictures[0], str(folder), second=pictures[1], stem="detect")
    pnnx_case.convert(Upright().eval(), [torch.rand(1, 3, 48, 192)], str(folder), stem="direction")
    lines = [torch.rand(1, 3, 48, 320)], [torch.rand(1, 3, 48, 480)]
    pnnx_case.convert(Hues().eval(), lines[0], str(folder), second=lines[1], stem="recognize")
    (folder / "characters.txt").write_text("B\n猫\nR\n")
    colors = {"B": (20, 20, 130), "猫": (20, 120, 20), "R": (130, 20, 20)}
    page = np.full((768, 768, 3), 255, np.uint8)
    for (left, top), text in {(60, 80): "RBR猫", (400, 84): "猫B", (100, 300): "B猫RB猫R"}.items():
        for i, letter in enumerate(text):
            page[top : top + 40, left + 40 * i : left + 40 * i + 40] = colors[letter]
    Image.fromarray(page).save(folder / "page.png", optimize=True)
    turned = page.copy()
    Image.fromarray(np.rot90(turned, 3)).save(folder / "turned.png", optimize=True)


SPECIAL = ["endoftext", "startoftranscript", "en", "fr", "translate", "transcribe", "startoflm", "startofprev",
           "nospeech", "notimestamps"]  # fmt: skip
WINDOW = 100  # frames that the tiny Whisper hears: a second
LETTERS = " abcdefghijklmnopqrstuvwxyz"


class Loudness(nn.Module):
    """Stands for silero-vad: it is loud where somebody speaks; what came before makes it a little likelier."""

    def forward(self, windows, hidden, cell):
        loud = windows.abs().mean(1)
        return torch.sigmoid(80 * (loud - 0.05) + hidden.mean()), hidden + loud.mean(), cell


def sound(path):
    """Tones that glide, with silence of three seconds between, as bytes."""
    seconds = np.arange(16000) / 16000
    glide = 80 * np.sin(2 * np.pi * (300 * seconds + 900 * seconds**2)) * (np.sin(9 * seconds) > -0.8)
    parts = [np.zeros(9000), glide, np.zeros(48000), glide[::-1], glide, np.zeros(7000)]
    data = np.round(128 + np.concatenate(parts)).astype(np.uint8)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 1, 16000, 0, "NONE", None))
        file.writeframes(data.tobytes())
    return (data.astype(np.float32) - 128) / 128


def tiny_tokenizer(path):
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens([f"<|{name}|>" for name in SPECIAL])
    tokenizer.save(str(path))
    return tokenizer


def tiny_whisper(tokens):
    config = transformers.WhisperConfig(
        vocab_size=tokens, d_model=16, num_mel_bins=80, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, max_source_positions=WINDOW // 2,
        max_target_positions=232, pad_token_id=0, bos_token_id=0, eos_token_id=256, decoder_start_token_id=257,
        init_std=0.4, suppress_tokens=None, begin_suppress_tokens=None)  # fmt: skip
    return transformers.WhisperForConditionalGeneration(config).eval()


def greedy(model, processors, prompt, features):
    """Tokens of a window by transformers, without a cache."""
    ids = torch.tensor([prompt])
    encoded = model.model.encoder(features)
    while ids.shape[1] < len(prompt) + 224:
        scores = model(encoder_outputs=encoded, decoder_input_ids=ids).logits[:, -1]
        for processor in processors:
            scores = processor(ids, scores)
        ids = torch.cat([ids, scores.argmax(1, keepdim=True)], 1)
        if ids[0, -1] == 256:
            return ids[0, len(prompt) : -1].tolist()
    return ids[0, len(prompt) :].tolist()


def listener():
    """What transformers' greedy answer gives behind faster-whisper's preparation, and before its segments."""
    folder = HERE / "demos" / "listen"
    folder.mkdir(exist_ok=True)
    tokenizer = tiny_tokenizer(folder / "tokenizer.json")
    first = tokenizer.token_to_id("<|notimestamps|>") + 1
    suppressed = [i for i in range(256) if tokenizer.decode([i]) not in LETTERS] + list(range(257, first - 1))
    (folder / "suppressed.txt").write_text(" ".join(map(str, suppressed)) + "\n0 256\n")
    (folder / "languages.txt").write_text("en\nfr\n")
    torch.manual_seed(11)
    model = tiny_whisper(first + WINDOW // 2 + 1)
    speech_networks.export_whisper(model, folder)
    state = [torch.zeros(1, 1, 128)] * 2
    windows = [torch.rand(7, 576), *state], [torch.rand(12, 576), *state]
    pnnx_case.convert(Loudness().eval(), windows[0], str(folder), second=windows[1], stem="voice")

    samples = sound(folder / "sound.wav")

    def loudness(padded):
        rows = torch.from_numpy(padded).view(-1, 512)
        rows = torch.cat([torch.cat([torch.zeros(1, 64), rows[:-1, -64:]]), rows], 1)
        return Loudness()(rows, *state)[0].numpy()

    faster_whisper.vad.get_vad_model = lambda: loudness
    chunks = faster_whisper.vad.get_speech_timestamps(samples)
    features = faster_whisper.feature_extractor.FeatureExtractor()(
        np.concatenate(faster_whisper.vad.collect_chunks(samples, chunks)[0]))  # fmt: skip
    features = torch.from_numpy(features.astype(np.float32))
    times = faster_whisper.vad.SpeechTimestampsMap(chunks, 16000)
    rules = types.SimpleNamespace(no_timestamps_token_id=first - 1, eos_token_id=256, bos_token_id=256,
                                  max_initial_timestamp_index=50, forced_decoder_ids=None)  # fmt: skip
    processors = [transformers.generation.SuppressTokensLogitsProcessor(suppressed),
                  transformers.generation.SuppressTokensAtBeginLogitsProcessor([0, 256], 3),
                  transformers.generation.WhisperTimeStampLogitsProcessor(rules, begin_index=3)]  # fmt: skip
    split = faster_whisper.WhisperModel._split_segments_by_timestamps
    whisper = types.SimpleNamespace(time_precision=0.02, input_stride=2)
    begin = types.SimpleNamespace(timestamp_begin=first)
    answer, seek, language = [], 0, None
    while seek < features.shape[1] - 1:
        size = min(WINDOW, features.shape[1] - 1 - seek)
        window = torch.zeros(1, 80, WINDOW)
        window[0, :, :size] = features[:, seek : seek + size]
        if language is None:
            scores = model(window, decoder_input_ids=torch.tensor([[257]])).logits[0, -1]
            language = 258 + int(scores[259] > scores[258])
        tokens = greedy(model, processors, [257, language, 261], window)
        segments, seek, _ = split(whisper, begin, tokens, seek / 100, size, size / 100, seek)
        for segment in segments:
            text = tokenizer.decode([token for token in segment["tokens"] if token < 256])
            if segment["start"] != segment["end"] and text.strip():
                ends = times.get_original_time(segment["start"]), times.get_original_time(segment["end"], is_end=True)
                answer.append([*ends, text])
    answer = {"speech": chunks, "language": SPECIAL[language - 256], "segments": answer}
    (folder / "answer.json").write_text(json.dumps(answer) + "\n")


def speaker():
    """A voice that says nothing anybody understands: what torch says of some phonemes where nothing is drawn."""
    folder = HERE / "demos" / "speak"
    folder.mkdir(exist_ok=True)
    torch.manual_seed(3)
    vits = voice_networks.Vits(phonemes=40, channels=12, latent=8, inner=16, heads=2, layers=2, window=2, flow=3,
                               flow_layers=2,
                               start=16, ups=((4, 8), (2, 4)), blocks=((3, (1, 2)), (5, (2, 3)))).eval()  # fmt: skip
    for flow in vits.dp.flows.values():
        for parameter in flow.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    voice_networks.export(vits, folder, 40)
    phonemes = {name: [i] for i, name in enumerate("_^$ .,abcdefghijklmnopqrstuvwxyzəˈ")}
    config = {"audio": {"sample_rate": 8000}, "inference": {"noise_scale": 0.5, "noise_w": 0.8},
              "phoneme_id_map": phonemes}
    voice_networks.write_voice(config, folder)
    text = "həˈlo wold\nthe comet came bˈack"
    (folder / "text.txt").write_text(text + "\n")
    numbers = [phonemes[one][0] for one in text.replace("\n", ", ") + "."]
    numbers = torch.tensor([[1, 0, *(n for number in numbers for n in (number, 0)), 2]])
    mean, _, times = voice_networks.Phonemes(vits)(numbers, torch.zeros(1, 2, numbers.size(1)))
    times = torch.exp(times)[0, 0]
    assert (times - times.round()).abs().min() > 1e-4, "a phoneme's time could be rounded the other way"
    assert times.max() > 2 and times.max() < 60, times
    wave_of = voice_networks.Sound(vits)(torch.repeat_interleave(mean, times.ceil().clamp(min=1).long(), 2))
    np.save(folder / "answer.npy", wave_of.reshape(-1).numpy())


def main():
    torch.set_grad_enabled(False)
    torch.manual_seed(5)
    classifier()
    detector()
    upscaler()
    reader()
    listener()
    speaker()


if __name__ == "__main__":
    main()
