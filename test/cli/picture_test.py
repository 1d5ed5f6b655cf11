#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Pictures in prompts from outside: tiny models with random weights answer as transformers does."""
import base64
import json
import subprocess
import unittest

from cli_test import OORT, SOURCE, Case

TINY = SOURCE / "test" / "checkpoints"
LLAMA = SOURCE / "models" / "storyteller"
ANSWERS = json.loads((TINY / "smolvlm.json").read_text())["answers"]
PARITY = ["--exact", "--kv", "f32", "--threads", "1"]


class PictureTest(Case):
    def about(self, row, *arguments):
        shown = ["--image", TINY / row["picture"], "--prompt", row["question"]]
        return ["generate", TINY / "smolvlm", *shown, *PARITY, *arguments]

    def test_answers_as_transformers_does(self):
        for row in ANSWERS:
            report = self.json(*self.about(row, "--max-tokens", 10, "--ignore-end"))
            self.assertEqual(report["prompt_token_ids"], row["prompt"])
            self.assertEqual(report["token_ids"], row["tokens"])

    def test_a_chat_shows_pictures(self):
        row = ANSWERS[0]
        answer = self.oort(*self.about(row, "--max-tokens", 10)).out
        talk = f"/image {TINY / row['picture']}\n{row['question']}\n"
        command = [OORT, "chat", TINY / "smolvlm", "--max-tokens", "10", *PARITY]
        done = subprocess.run([*map(str, command)], input=talk.encode(), capture_output=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.decode(), answer)

    def test_a_batch_takes_pictures(self):
        row = ANSWERS[0]
        url = "data:image/png;base64," + base64.b64encode((TINY / row["picture"]).read_bytes()).decode()
        content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": row["question"]}]
        body = {"messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": 10}
        body |= {"return_token_ids": True, "ignore_eos": True}
        line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}
        (self.dir / "in.jsonl").write_text(json.dumps(line) + "\n")
        files = ["--input", self.dir / "in.jsonl", "--output", self.dir / "out.jsonl"]
        self.oort("batch", TINY / "smolvlm", *files, *PARITY)
        answer = json.loads((self.dir / "out.jsonl").read_text())["response"]["body"]
        self.assertEqual(answer["choices"][0]["token_ids"], row["tokens"])

    def test_what_cannot_be_shown(self):
        picture = TINY / ANSWERS[0]["picture"]
        text = self.dir / "text.png"
        text.write_text("no picture")
        smolvlm = TINY / "smolvlm"
        for arguments, says in (
            ([smolvlm, "--image", text, "--prompt", "x"], "neither"),
            ([LLAMA, "--image", picture, "--prompt", "x"], "reads text alone"),
            ([smolvlm, "--image", picture, "--prompt", "x", "--ranks", 2], "one rank"),
        ):
            self.assertIn(says, self.oort("generate", *arguments, code=1).err)
        self.oort("generate", smolvlm, "--image", picture, "--prompt", "x", "--raw", code=2)

    def test_the_language_model_alone(self):
        """Converted or on several ranks it reads text."""
        param = self.dir / "m.pnnx.param"
        self.oort("convert", TINY / "smolvlm", param)
        ask = ["--prompt", "Hi", "--max-tokens", 5, "--ignore-end", *PARITY]
        whole = self.json("generate", TINY / "smolvlm", *ask)["token_ids"]
        for model, more in ((param, []), (TINY / "smolvlm", ["--ranks", 2])):
            self.assertEqual(self.json("generate", model, *ask, *more)["token_ids"], whole)


if __name__ == "__main__":
    unittest.main()
