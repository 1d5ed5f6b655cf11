#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`oort rerank`, and `oort embed` of folders of Hugging Face: with transformers' answers."""
import json
import unittest

from cli_test import SOURCE, read_npy
from language_test import STORYTELLER, LanguageCase

ENCODERS = SOURCE / "test/encoders"
MODEL = ENCODERS / "bert_reranker"


def answers_of(folder):
    return json.loads((folder / "answers.json").read_text(encoding="utf-8"))


class RerankTest(LanguageCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        rows = answers_of(MODEL)
        cls.query = rows[0]["query"]
        cls.rows = [row for row in rows if row["query"] == cls.query]

    def lines(self):
        path = self.dir / "texts.jsonl"
        texts = [json.dumps({"text": row["document"]} if i % 2 else row["document"]) for i, row in enumerate(self.rows)]
        path.write_text("".join(text + "\n" for text in texts))
        return path

    def check(self, results, rows, key="logit"):
        want = sorted(enumerate(rows), key=lambda pair: -pair[1][key])
        self.assertEqual([result["index"] for result in results], [place for place, _ in want][: len(results)])
        for result, (_, row) in zip(results, want):
            self.assertAlmostEqual(result["relevance_score"], row[key], delta=1e-4)
            self.assertEqual(result["document"]["text"], row["document"])

    def test_scores_are_those_of_transformers(self):
        summary = self.json("rerank", MODEL, "--query", self.query, self.lines())
        self.check(summary["results"], self.rows)  # this model asks for raw scores
        self.assertEqual(len(summary["results"]), len(self.rows))
        self.assertEqual(summary["tokens"], sum(len(row["ids"]) for row in self.rows))
        self.assertEqual(summary["truncated"], 0)
        self.check(self.json("rerank", MODEL, "--query", self.query, self.lines(), "--top", 2)["results"], self.rows)
        other = ENCODERS / "modernbert_reranker"
        rows = [row for row in answers_of(other) if row["query"] == self.query]
        self.check(self.json("rerank", other, "--query", self.query, self.lines())["results"], rows, "score")
        raw = self.json("rerank", other, "--query", self.query, self.lines(), "--raw-scores")
        self.check(raw["results"], rows)

    def test_files_and_lines(self):
        files = []
        for i, row in enumerate(self.rows[:3]):
            files.append(self.dir / f"{i}.txt")
            files[-1].write_text(row["document"])
        summary = self.json("rerank", MODEL, "--query", self.query, *files)
        self.check(summary["results"], self.rows[:3])
        names = [result["name"] for result in summary["results"]]
        self.assertEqual(names, [str(files[result["index"]]) for result in summary["results"]])
        together = self.dir / "all.txt"
        together.write_text("".join(row["document"] + "\n" for row in self.rows[:3]))
        summary = self.json("rerank", MODEL, "--query", self.query, together, "--lines")
        self.check(summary["results"], self.rows[:3])
        self.assertTrue(summary["results"][0]["name"].startswith(f"{together}:"))

    def test_a_table_for_people(self):
        done = self.oort("rerank", MODEL, "--query", self.query, self.lines(), "--top", 1)
        best = max(self.rows, key=lambda row: row["logit"])
        self.assertIn(f"{best['logit']:.3f}"[:-1], done.out)
        self.assertIn(best["document"][:40], done.out)
        self.assertNotIn("were cut", done.out)
        done = self.oort("rerank", MODEL, "--query", self.query, self.lines(), "--max-tokens", 30)
        cut = sum(len(row["ids"]) > 30 for row in self.rows)
        self.assertGreater(cut, 0)
        self.assertIn(f"{cut} of {len(self.rows)} texts were cut", done.out)
        self.assertIn("zebra", done.out)

    def test_wrong_usage(self):
        texts = self.lines()
        self.fails("rerank", MODEL, "--query", "", texts, code=2, says="--query")
        self.fails("rerank", MODEL, texts, code=2, says="--query")
        self.fails("rerank", MODEL, "--query", "a", self.dir / "none.txt", says="none.txt")
        self.fails("rerank", ENCODERS / "tiny_bert", "--query", "a", texts, says="holds no reranker")
        self.fails("rerank", ENCODERS / "bert", "--query", "a", texts, says="gives vectors")
        self.fails("rerank", STORYTELLER, "--query", "a", texts, says="holds no reranker")
        self.fails("rerank", MODEL, "--query", "a", texts, "--max-tokens", 100, says="48 tokens")

    def test_folders_embed(self):
        rows = answers_of(ENCODERS / "modernbert")
        texts = self.dir / "texts.jsonl"
        texts.write_text("".join(json.dumps(row["text"]) + "\n" for row in rows))
        out = self.dir / "x.npy"
        self.oort("embed", ENCODERS / "modernbert", "--input", texts, "--output", out, "--no-normalize")
        numbers = read_npy(out)
        for i, row in enumerate(rows):
            for got, want in zip(numbers[32 * i : 32 * i + 32], row["mean"], strict=True):
                self.assertAlmostEqual(got, want, delta=1e-4)


if __name__ == "__main__":
    unittest.main()
