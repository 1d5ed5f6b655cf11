#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the demos on tiny networks (make_demo_nets.py) and compares with what torch and transformers answered.

    OORT=build/oort OORT_DEMOS=build/demos OORT_SOURCE=. test/cli/demos_test.py [CLASS …]
"""
import json
import math
import os
import pathlib
import re
import struct
import subprocess
import tempfile
import unittest
import wave
import zlib

DEMOS = pathlib.Path(os.environ["OORT_DEMOS"])
SOURCE = pathlib.Path(os.environ["OORT_SOURCE"]).resolve()
NETS = SOURCE / "test" / "cli" / "demos"
PICTURE = SOURCE / "test" / "media" / "goldens" / "picture.png"


def read_png(path):
    """(width, height, bytes of RGB) of a picture of 8 bits without interlace."""
    data, offset, body = pathlib.Path(path).read_bytes(), 8, b""
    while offset < len(data):
        size, kind = struct.unpack_from(">I4s", data, offset)
        if kind == b"IHDR":
            width, height = struct.unpack_from(">II", data, offset + 8)
        if kind == b"IDAT":
            body += data[offset + 8 : offset + 8 + size]
        offset += size + 12
    rows, last = zlib.decompress(body), bytearray(3 * width)
    pixels = bytearray()
    for y in range(height):
        kind, *row = rows[y * (3 * width + 1) : (y + 1) * (3 * width + 1)]
        for i in range(3 * width):
            left, above = (row[i - 3] if i >= 3 else 0), last[i]
            corner = last[i - 3] if i >= 3 else 0
            near = min((abs(above - corner), 0, left), (abs(left - corner), 1, above),
                       (abs(left + above - 2 * corner), 2, corner))[2]  # fmt: skip
            row[i] = (row[i] + (0, left, above, (left + above) // 2, near)[kind]) & 255
        last = row
        pixels += bytes(row)
    return width, height, bytes(pixels)


class Demo(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def demo(self, *command, code=0, said=None):
        done = subprocess.run([DEMOS / command[0], *command[1:]], capture_output=True, text=True, timeout=120,
                              input=said)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def refuses(self, name, *arguments):
        self.assertIn("usage", self.demo(name, code=2))
        error = self.demo(name, *arguments, code=1)
        self.assertTrue(error.startswith(name + ": "), error)
        self.assertEqual(error.count("\n"), 1, error)


class ClassifyDemoTest(Demo):
    def test_the_five_likeliest_are_those_of_torch(self):
        printed = self.demo("classify", NETS / "classify", PICTURE)
        rows = re.findall(r"^ +([\d.]+) %  (.*?) +[█▏▎▍▌▋▊▉]+", printed, re.MULTILINE)
        wanted = json.loads((NETS / "classify" / "answer.json").read_text())
        self.assertEqual([label for _, label in rows], [label for label, _ in wanted])
        for (ours, _), (_, theirs) in zip(rows, wanted):
            self.assertAlmostEqual(float(ours), theirs, delta=0.06)

    def test_refusals(self):
        self.refuses("classify", NETS / "classify", "none.png")


class DetectDemoTest(Demo):
    def test_boxes_are_those_of_torchvision(self):
        printed = self.demo("detect", NETS / "detect", PICTURE, "--score", "0.4", "--out", self.folder)
        rows = re.findall(r"^  ([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)  (\w+)$", printed, re.MULTILINE)
        wanted = json.loads((NETS / "detect" / "answer.json").read_text())
        self.assertEqual([row[-1] for row in rows], [row[-1] for row in wanted])
        for ours, theirs in zip(rows, wanted):
            for a, b in zip(ours[:-1], theirs[:-1]):
                self.assertAlmostEqual(float(a), b, delta=0.11)
        plain, drawn = read_png(PICTURE), read_png(self.folder / "picture.png")
        self.assertEqual(plain[:2], drawn[:2])
        self.assertNotEqual(plain[2], drawn[2])

    def test_a_folder_is_a_film(self):
        frames = self.folder / "frames"
        frames.mkdir()
        for name in ("b.png", "a.png", "notes.txt"):
            (frames / name).write_bytes(PICTURE.read_bytes())
        printed = self.demo("detect", NETS / "detect", frames, "--out", self.folder / "out")
        self.assertEqual(re.findall(r"(\w\.png) ->", printed), ["a.png", "b.png"])
        self.assertIn("2 pictures, ", printed)
        self.assertEqual(sorted(path.name for path in (self.folder / "out").iterdir()), ["a.png", "b.png"])

    def test_refusals(self):
        self.refuses("detect", NETS / "classify", PICTURE, "--out", self.folder)


class UpscaleDemoTest(Demo):
    def upscaled(self, *options):
        out = self.folder / "large.png"
        self.demo("upscale", NETS / "upscale", PICTURE, out, *options)
        return read_png(out)

    def assertAlike(self, ours, wanted):
        self.assertEqual(ours[:2], wanted[:2])
        self.assertLessEqual(max(abs(a - b) for a, b in zip(ours[2], wanted[2])), 1)

    def test_tiles_give_what_the_whole_picture_gives_in_torch(self):
        wanted = read_png(NETS / "upscale" / "answer.png")
        self.assertEqual(wanted[:2], (74, 46))
        self.assertAlike(self.upscaled(), wanted)
        for tile in ("1", "7", "16"):
            self.assertAlike(self.upscaled("--tile", tile, "--margin", "3"), wanted)

    def test_without_a_margin_seams_are_seen(self):
        wanted, seams = read_png(NETS / "upscale" / "answer.png"), self.upscaled("--tile", "8", "--margin", "0")
        self.assertGreater(max(abs(a - b) for a, b in zip(seams[2], wanted[2])), 3)

    def test_refusals(self):
        self.refuses("upscale", NETS / "classify", PICTURE, self.folder / "x.png")


class ReadDemoTest(Demo):
    def lines(self, name, *options):
        printed = self.demo("read", NETS / "read", NETS / "read" / name, *options)
        return re.findall(r"^  ([\d.]+) +(\d+) +(\d+) +(\d+) +(\d+)  (.+)$", printed, re.MULTILINE)

    def test_lines_are_read_in_order(self):
        lines = self.lines("page.png", "--out", self.folder)
        self.assertEqual([line[-1] for line in lines], ["RBR猫", "猫B", "B猫RB猫R"])
        corners = [(60, 80), (400, 84), (100, 300)]
        for (score, *box, text), (left, top) in zip(lines, corners):
            self.assertGreater(float(score), 0.6)
            inside = left, top, left + 40 * len(text), top + 40
            outwards = [sign * (int(found) - edge) for sign, found, edge in zip((-1, -1, 1, 1), box, inside)]
            self.assertTrue(all(0 < far < 40 for far in outwards), (box, inside))
        self.assertNotEqual(read_png(self.folder / "page.png")[2], read_png(NETS / "read" / "page.png")[2])

    def test_lines_that_stand_are_laid_down(self):
        # The third line, of two letters, is not much higher than wide: it stays as it is.
        self.assertLessEqual({"RBR猫", "B猫RB猫R"}, {line[-1] for line in self.lines("turned.png")})

    def test_refusals(self):
        self.refuses("read", NETS / "classify", NETS / "read" / "page.png")


class ListenDemoTest(Demo):
    SOUND = NETS / "listen" / "sound.wav"
    ROW = re.compile(r"^ +([\d.]+) +([\d.]+) (.*)$", re.MULTILINE)

    def test_words_and_times_are_those_of_transformers_and_faster_whisper(self):
        printed = self.demo("listen", NETS / "listen", self.SOUND)
        wanted = json.loads((NETS / "listen" / "answer.json").read_text())
        self.assertIn(f"language: {wanted['language']}\n", printed)
        rows = [[float(begin), float(end), text] for begin, end, text in self.ROW.findall(printed)]
        self.assertEqual(rows, wanted["segments"])

    def test_recordings_of_other_rates_one_after_the_other(self):
        twice = self.demo("listen", NETS / "listen", self.SOUND, self.SOUND)
        rows = self.ROW.findall(twice)
        self.assertEqual(rows[: len(rows) // 2], rows[len(rows) // 2 :])
        silence = self.folder / "silence.wav"
        with wave.open(str(silence), "wb") as file:
            file.setparams((2, 2, 44100, 0, "NONE", None))
            file.writeframes(bytes(4 * 44100))
        self.assertEqual(self.ROW.findall(self.demo("listen", NETS / "listen", silence)), [])

    def test_a_language_may_be_told_and_silence_be_heard(self):
        printed = self.demo("listen", NETS / "listen", self.SOUND, "--language", "en", "--whole")
        self.assertNotIn("language:", printed)
        self.assertTrue(self.ROW.findall(printed))

    def test_refusals(self):
        self.refuses("listen", NETS / "listen", PICTURE)
        self.refuses("listen", NETS / "read", self.SOUND)
        self.refuses("listen", NETS / "listen", self.SOUND, "--language", "tlh")


class SearchDemoTest(Demo):
    MODEL = SOURCE / "test" / "encoders" / "tiny_bert"

    def golden(self):
        """Texts with the unit vectors that transformers' answers give, those that would be no passage left out."""
        texts = {}
        for case in json.loads((self.MODEL / "answers.json").read_text()):
            vector = case["cls" if self.pools_first_token() else "mean"]
            length = math.sqrt(sum(x * x for x in vector))
            if case["text"].strip():
                texts[case["text"].strip()] = [x / length for x in vector]
        return texts

    def pools_first_token(self):
        return json.loads((self.MODEL / "1_Pooling" / "config.json").read_text()).get("pooling_mode_cls_token", False)

    def test_passages_stand_in_the_order_of_transformers(self):
        texts = self.golden()
        folder = self.folder / "texts"
        folder.mkdir()
        names = list(texts)
        (folder / "a.txt").write_text("\n\n".join(names[:5]) + "\n")
        (folder / "b.md").write_text("\n\n \n" + "\n\n".join(names[5:]) + "\n")
        (folder / "c.png").write_bytes(b"no text")
        index = self.folder / "index"
        self.assertIn(f"{len(names)} passages", self.demo("search", "index", self.MODEL, index, folder))
        for question in names[:4]:
            printed = self.demo("search", "find", self.MODEL, index, question, "--top", "99")
            found = re.findall(r"^([-\d.]+)  \S*(a\.txt|b\.md):(\d+)\n    (.*)$", printed, re.MULTILINE)
            scores = {text: sum(a * b for a, b in zip(texts[question], vector)) for text, vector in texts.items()}
            self.assertEqual(found[0][3], question)
            self.assertEqual({row[3] for row in found}, set(names))
            for score, _, _, text in found:
                self.assertAlmostEqual(float(score), scores[text], delta=2e-4)
            ordered = [scores[row[3]] for row in found]
            self.assertTrue(all(a > b - 2e-4 for a, b in zip(ordered, ordered[1:])), ordered)

    def test_lines_of_passages_are_told(self):
        text = self.folder / "x.txt"
        text.write_text("the comet\nis far\n\n\ttwo comets\n" + ("light " * 100 + "\n") * 5)
        self.demo("search", "index", self.MODEL, self.folder / "index", text)
        rows = [line.split("\t") for line in (self.folder / "index" / "passages.txt").read_text().splitlines()]
        self.assertEqual([(int(row[1]), row[2][:12]) for row in rows],
                         [(1, "the comet is"), (4, "two comets l"), (6, "light light "), (8, "light light ")])

    def test_refusals(self):
        self.refuses("search", "find", self.MODEL, self.folder, "a")
        index = self.folder / "index"
        text = self.folder / "x.txt"
        text.write_text("the comet\n")
        self.demo("search", "index", self.MODEL, index, text)
        (index / "passages.txt").write_text("")
        self.assertIn("make it again", self.demo("search", "find", self.MODEL, index, "a", code=1))


class SpeakDemoTest(Demo):
    TEXT = (NETS / "speak" / "text.txt").read_text()
    STILL = ("--noise", "0", "--time-noise", "0")

    def spoken(self, *options, text=TEXT):
        out = self.folder / "spoken.wav"
        self.demo("speak", NETS / "speak", out, *options, said=text)
        with wave.open(str(out)) as file:
            self.assertEqual((file.getnchannels(), file.getframerate(), file.getsampwidth()), (1, 8000, 2))
            data = file.readframes(file.getnframes())
        return struct.unpack(f"<{len(data) // 2}h", data)

    def test_the_wave_is_that_of_torch(self):
        data = (NETS / "speak" / "answer.npy").read_bytes()
        size = struct.unpack_from("<H", data, 8)[0]
        wanted = struct.unpack(f"<{(len(data) - 10 - size) // 4}f", data[10 + size :])
        ours = self.spoken(*self.STILL)
        self.assertEqual(len(ours), len(wanted))
        self.assertGreater(max(wanted), 0.01)
        for a, b in zip(ours, wanted):
            self.assertAlmostEqual(a / 32768, b, delta=2e-4)

    def test_what_is_drawn_makes_it_another(self):
        first = self.spoken("--seed", "1")
        self.assertEqual(self.spoken("--seed", "1"), first)
        self.assertNotEqual(self.spoken("--seed", "2"), first)
        self.assertNotEqual(first, self.spoken(*self.STILL))

    def test_slower_takes_longer(self):
        self.assertGreater(len(self.spoken(*self.STILL, "--slower", "2")), 1.3 * len(self.spoken(*self.STILL)))
        # What the voice does not know is left out.
        self.assertEqual(self.spoken(*self.STILL, text="猫" + self.TEXT), self.spoken(*self.STILL))

    def test_refusals(self):
        self.refuses("speak", NETS / "classify", self.folder / "x.wav")
        for said in ("", "\n \n"):
            error = self.demo("speak", NETS / "speak", self.folder / "x.wav", code=1, said=said)
            self.assertTrue(error.startswith("speak: "), error)


if __name__ == "__main__":
    unittest.main()
