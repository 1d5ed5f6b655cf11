# SPDX-License-Identifier: MIT
"""oort tokenize from outside."""
import json
import os
import subprocess
import sys
import unittest

WORDS = os.path.join(os.environ["OORT_SOURCE"], "test/fuzz/corpus/tokenizer_fuzz/words.json")


def tokenize(text, *arguments):
    return subprocess.run([os.environ["OORT"], "tokenize", *arguments], input=text, capture_output=True, text=True)


class TokenizeTest(unittest.TestCase):
    def test_ids_are_one_line(self):
        self.assertEqual(tokenize("Hello world!", WORDS, "--ids").stdout, "2 1 2 3 3\n")
        self.assertEqual(tokenize("Hello world!", WORDS, "--ids", "--no-special").stdout, "1 2 3\n")
        self.assertEqual(tokenize("", WORDS, "--ids", "--no-special").stdout, "\n")

    def test_pieces_for_people_and_for_programs(self):
        shown = tokenize("Hello world", WORDS, "--no-special").stdout
        self.assertIn("'Hello'", shown)
        self.assertIn("2 tokens", shown)
        answer = json.loads(tokenize("Hello you", WORDS, "--no-special", "--json").stdout)
        self.assertEqual(answer, {"count": 2, "ids": [1, 0], "pieces": ["Hello", "<unk>"]})

    def test_back_to_text(self):
        self.assertEqual(tokenize("1 2 3\n", WORDS, "--decode").stdout, "Hello world !")
        self.assertEqual(tokenize("1 x", WORDS, "--decode").returncode, 2)

    def test_many_lines(self):
        lines = tokenize('"Hello"\n"a\\nworld"\n', WORDS, "--lines", "--no-special").stdout
        self.assertEqual(lines, "[1]\n[4,2]\n")
        self.assertEqual(tokenize("[1,2]\n", WORDS, "--lines", "--decode").stdout, '"Hello world"\n')

    def test_failures_are_one_line(self):
        done = tokenize("x", os.path.join(os.environ["OORT_SOURCE"], "LICENSE"))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertEqual(tokenize("x", "nowhere.json").returncode, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
