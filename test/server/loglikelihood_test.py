#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Scores of texts through /v1/completions, as lm-eval's local-completions asks for them, beside `oort perplexity`.

lm-eval itself asks where tools/server-clients FOLDER lm-eval has installed it and OORT_CLIENTS names FOLDER.
"""

import json
import pathlib
import subprocess
import tempfile
import unittest
import urllib.request

from server import OORT, SECONDS, STORYTELLER, Server, go_on_in

go_on_in("lm-eval")
try:
    from lm_eval.models.openai_completions import LocalCompletionsAPI
except ImportError:
    LocalCompletionsAPI = None

WINDOW = 48
TEXT = (
    "Once upon a time there was a fox called Nora. She lived in the forest with her friend, a hungry cat. One day they "
    'found a round basket in the grass. "It is mine," said Nora. They pulled until both were tired, and then they '
    "shared what was in it. The wind sang in the trees, and every door rattled. After that they went home together.\n"
) * 2


def post(url, path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=SECONDS))


class LoglikelihoodTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--quiet").__enter__()
        cls.addClassCleanup(cls.server.__exit__)
        cls.ids = post(cls.server.url, "/tokenize", {"prompt": TEXT})["tokens"]
        # The last token of a window predicts the first of the next.
        cls.windows = [cls.ids[at : at + WINDOW + 1] for at in range(0, len(cls.ids) - 1, WINDOW)]
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "text.txt")
            file.write_text(TEXT)
            done = subprocess.run(
                [OORT, "perplexity", STORYTELLER, file, "--exact", "--threads", "1", "--window", str(WINDOW), "--json"],
                capture_output=True,
                text=True,
                check=True,
                timeout=SECONDS,
            )
        cls.expected = json.loads(done.stdout)

    def expect_same(self, scores):
        """The mean of log-probabilities of all tokens but the first of each window is that of the program."""
        self.assertEqual(len(scores), sum(len(window) - 1 for window in self.windows))
        self.assertEqual(len(scores), self.expected["tokens"])
        self.assertAlmostEqual(-sum(scores) / len(scores), self.expected["loss"], places=4)

    def test_echoed_log_probabilities(self):
        scores = []
        for window in self.windows:
            choice = post(
                self.server.url,
                "/v1/completions",
                {
                    "model": "storyteller",
                    "prompt": [window],
                    "max_tokens": 1,
                    "logprobs": 1,
                    "seed": 1234,
                    "echo": True,
                    "temperature": 0,
                },
            )["choices"][0]["logprobs"]
            # lm-eval leaves the token out that was generated, and compares each with the likeliest in its place.
            scores += choice["token_logprobs"][1:-1]
            for score, top in zip(choice["token_logprobs"][1:-1], choice["top_logprobs"][1:-1]):
                self.assertLessEqual(score, max(top.values()) + 1e-6)
        self.expect_same(scores)

    @unittest.skipIf(LocalCompletionsAPI is None, "needs lm-eval: tools/server-clients FOLDER lm-eval")
    def test_lm_eval(self):
        model = LocalCompletionsAPI(
            base_url=self.server.url + "/v1/completions",
            model="storyteller",
            batch_size=1,
            tokenizer=str(STORYTELLER),
            tokenizer_backend="huggingface",
            max_length=512,
        )
        requests = [(("", ""), window[:1], window[1:]) for window in self.windows]
        answers = model._loglikelihood_tokens(requests, disable_tqdm=True)
        total = sum(len(window) - 1 for window in self.windows)
        self.assertAlmostEqual(-sum(score for score, _ in answers) / total, self.expected["loss"], places=4)


if __name__ == "__main__":
    unittest.main()
