#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One model on several processes that find each other over TCP, and a server on ranks.

OORT_RANK_FAULTS=200 kills and stops so many ranks instead of a few."""
import json
import os
import random
import re
import signal
import socket
import subprocess
import time
import unittest
import urllib.error
import urllib.request

from cli_test import OORT
from language_test import STORYTELLER, TINY, LanguageCase
from rank_work import await_work

ASK = ["generate", STORYTELLER, "--raw", "--prompt", "Once upon a time", "--max-tokens", 24, "--threads", 1]
FAULTS = int(os.environ.get("OORT_RANK_FAULTS", "6"))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class TcpCase(LanguageCase):
    def setUp(self):
        super().setUp()
        self.secret = self.write("secret", "a secret of sixteen characters and more\n")
        self.jobs = []

    def tearDown(self):
        for job in self.jobs:
            if job.poll() is None:
                job.kill()
            job.wait()
            job.stdout.close()
            job.stderr.close()
        super().tearDown()

    def start(self, words, rank, ranks, port, secret=None):
        place = ["--ranks", f"tcp:{rank}/{ranks}@127.0.0.1:{port}", "--rank-secret", secret or self.secret]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        job = subprocess.Popen([OORT, *map(str, [*words, *place])], **pipes, text=True)
        self.jobs.append(job)
        return job

    def start_all(self, words, ranks):
        port = free_port()
        return [self.start(words, rank, ranks, port) for rank in range(ranks)]

    def finish(self, jobs, seconds=120):
        """Exit codes, and what each of them wrote."""
        done = [(job, *job.communicate(timeout=seconds)) for job in jobs]
        return [job.returncode for job, _, _ in done], [out for _, out, _ in done], [err for _, _, err in done]


class TcpTest(TcpCase):
    def test_processes_answer_as_one(self):
        alone = self.json(*ASK)
        for ranks, split in ((2, "exact"), (3, "exact"), (2, "pipeline"), (3, "pipeline")):
            codes, outs, errors = self.finish(self.start_all([*ASK, "--split", split, "--json"], ranks))
            self.assertEqual(codes, [0] * ranks, errors)
            self.assertEqual(json.loads(outs[0])["token_ids"], alone["token_ids"], (ranks, split))
            self.assertEqual(outs[1:], [""] * (ranks - 1))

    def test_states_of_sequences_are_those_of_one(self):
        ask = ["generate", TINY / "mamba2.gguf", "--raw", "--prompt", "the cat", "--max-tokens", 20, "--ignore-end"]
        ask += ["--exact", "--n", 3, "--temperature", 1, "--seed", 3, "--threads", 1]  # answers begin with copies
        alone = self.json(*ask)
        for ranks, split in ((2, "exact"), (3, "exact"), (2, "pipeline")):
            codes, outs, errors = self.finish(self.start_all([*ask, "--split", split, "--json"], ranks))
            self.assertEqual(codes, [0] * ranks, errors)
            together = json.loads(outs[0])
            self.assertEqual(together["token_ids"], alone["token_ids"], (ranks, split))
            self.assertEqual([a["text"] for a in together["others"]], [a["text"] for a in alone["others"]])

    def test_each_rank_reads_the_text(self):
        ask = ["generate", TINY / "t5", "--prompt", "the cat sat on a mat", "--max-tokens", 12, "--ignore-end"]
        ask += ["--n", 3, "--temperature", 1, "--seed", 3, "--threads", 1]
        alone = self.json(*ask)
        for ranks in (2, 3):
            codes, outs, errors = self.finish(self.start_all([*ask, "--split", "exact", "--json"], ranks))
            self.assertEqual(codes, [0] * ranks, errors)
            together = json.loads(outs[0])
            self.assertEqual(together["token_ids"], alone["token_ids"], ranks)
            self.assertEqual([a["text"] for a in together["others"]], [a["text"] for a in alone["others"]])

    def test_processes_give_the_bits_of_threads(self):
        ask = [*ASK, "--split", "fast", "--logprobs", 3]
        threads = self.json(*ask, "--ranks", 2)
        codes, outs, errors = self.finish(self.start_all([*ask, "--json"], 2))
        self.assertEqual(codes, [0, 0], errors)
        self.assertEqual(json.loads(outs[0])["logprobs"], threads["logprobs"])

    def test_what_differs_between_ranks_ends_all(self):
        port = free_port()
        missing = self.dir / "nothing.gguf"
        jobs = [self.start(ASK, 0, 2, port), self.start(["generate", missing, *ASK[2:]], 1, 2, port)]
        codes, _, errors = self.finish(jobs)
        self.assertEqual(codes, [1, 1])
        for error in errors:
            self.assertRegex(error, r"\Aoort: [^\n]*nothing.gguf[^\n]*\n\Z")
        self.assertRegex(errors[0], r"rank 1 \(")
        port = free_port()
        other = ["generate", TINY / "llama.gguf", *ASK[2:]]
        codes, _, errors = self.finish([self.start(ASK, 0, 2, port), self.start(other, 1, 2, port)])
        self.assertEqual(codes, [1, 1])
        for error in errors:
            self.assertIn("another model", error)

    def test_a_rank_with_another_secret_is_not_let_in(self):
        other = self.write("other", "another secret of sixteen characters\n")
        port = free_port()
        first = self.start(ASK, 0, 2, port)
        codes, _, errors = self.finish([self.start(ASK, 1, 2, port, other)])
        self.assertEqual(codes, [1])
        self.assertIn("another secret", errors[0])
        codes, outs, errors = self.finish([first, self.start(ASK, 1, 2, port)])
        self.assertEqual(codes, [0, 0], errors)
        self.assertNotEqual(outs[0], "")

    def test_what_makes_no_sense_is_refused(self):
        for place in ("tcp", "tcp:0/2", "tcp:2/2@here:1", "tcp:0/1@here:1", "tcp:-1/2@here:1", "tcp:0/2@"):
            self.fails(*ASK, "--ranks", place, "--rank-secret", self.secret, code=2, says="tcp:RANK/RANKS@HOST:PORT")
        self.fails(*ASK, "--ranks", "tcp:0/2@127.0.0.1:1", code=2, says="--rank-secret FILE")
        missing = self.dir / "nothing"
        place = ["--ranks", "tcp:0/2@127.0.0.1:1", "--rank-secret"]
        self.fails(*ASK, *place, missing, says="cannot read the secret")
        self.fails(*ASK, *place, self.write("short", "short"), says="16 characters")
        self.fails(*ASK, *place, self.write("long", "x" * 5000), says="too long")


class RankFaultsTest(TcpCase):
    """Ranks that die or hang in the middle of an answer: all others end in one sentence."""

    def test_a_rank_that_dies_or_hangs_ends_all_in_time(self):
        deadline, ranks = 2, 3
        bench = ["bench-llm", STORYTELLER, "--prompt-tokens", 24, "--new-tokens", 40, "--threads", 1]
        bench += ["--rounds", 100000, "--rank-deadline", deadline]
        for turn in range(FAULTS):
            split = ("fast", "exact", "pipeline")[turn // 2 % 3]
            jobs = self.start_all([*bench, "--split", split], ranks)
            await_work(self, [job.pid for job in jobs])
            time.sleep(random.uniform(0, 1))
            victim = random.randrange(ranks)
            kind = (signal.SIGKILL, signal.SIGSTOP)[turn % 2]
            jobs[victim].send_signal(kind)
            self.expect_ends(jobs, victim, kind, f"turn {turn}: {kind.name} of rank {victim}, {split}")

    def expect_ends(self, jobs, victim, kind, what):
        """A follower waits for the next step twice as long; the rest is a slow machine's."""
        others = [job for rank, job in enumerate(jobs) if rank != victim]
        codes, outs, errors = self.finish(others, 60)
        self.assertEqual(codes, [1] * len(others), (what, outs, errors))
        for error in errors:
            self.assertRegex(error, r"\Aoort: [^\n]*\n\Z", what)
            # Rank and host, and what they were at: an operator, the next step, or how they began.
            self.assertRegex(error, rf"rank {victim} \(", what)
            self.assertRegex(error, r"oort\.\w+ '|the next step|the start|the cache|comparison|did not come|left", what)
        if kind == signal.SIGSTOP:
            jobs[victim].send_signal(signal.SIGCONT)
            codes, _, errors = self.finish([jobs[victim]], 60)
            self.assertEqual(codes, [1], (what, errors))
            self.assertRegex(errors[0], r"\Aoort: [^\n]*rank \d[^\n]*\n\Z", what)


class ServeOnRanksTest(TcpCase):
    def ask(self, port, prompt, **more):
        body = json.dumps({"model": "storyteller", "prompt": prompt, "max_tokens": 16, "temperature": 0, **more})
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/completions", body.encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return [choice["text"] for choice in json.load(answer)["choices"]]

    def serving(self, job):
        """The port, once it serves."""
        for line in job.stderr:
            found = re.search(r"serving .* at http://127\.0\.0\.1:(\d+)", line)
            if found:
                return int(found[1])
        self.fail("it does not serve")
        return 0

    def answers_of(self, words, ranks):
        serve = ["serve", STORYTELLER, "--port", 0, "--threads", 1, "--quiet", *words]
        jobs = self.start_all(serve, ranks) if ranks > 1 else [self.start_alone(serve)]
        port = self.serving(jobs[0])
        answers = [self.ask(port, f"Once upon a {thing}") for thing in ("time", "cat", "house")]
        answers.append(self.ask(port, "The dog", n=3, temperature=1, seed=5))
        return jobs, port, answers

    def start_alone(self, words):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        job = subprocess.Popen([OORT, *map(str, words)], **pipes, text=True)
        self.jobs.append(job)
        return job

    def test_a_server_on_ranks_answers_as_one(self):
        jobs, _, alone = self.answers_of([], 1)
        jobs[0].terminate()
        self.finish(jobs)
        for words in (["--ranks", 2, "--split", "exact"], ["--ranks", 2, "--split", "pipeline"]):
            jobs, _, answers = self.answers_of(words, 1)
            self.assertEqual(answers, alone, words)
            jobs[0].terminate()
            self.assertEqual(self.finish(jobs)[0], [0])
        jobs, _, answers = self.answers_of(["--split", "exact", "--draft", "ngram"], 2)
        self.assertEqual(answers, alone)
        jobs[0].terminate()
        codes, _, errors = self.finish(jobs)
        self.assertEqual(codes, [0, 0], errors)

    def test_a_server_lives_on_when_a_rank_dies(self):
        jobs, port, _ = self.answers_of(["--rank-deadline", 1], 2)
        jobs[1].kill()
        for _ in range(4):
            with self.assertRaises(urllib.error.HTTPError) as caught:
                self.ask(port, "Once upon a time")
            self.assertEqual(caught.exception.code // 100, 5)
            caught.exception.close()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=60) as answer:
            self.assertEqual(answer.status, 200)
        self.assertIsNone(jobs[0].poll())
        jobs[0].terminate()
        _, _, errors = self.finish(jobs[:1])
        # The askers heard that it is the server's fault; who runs it hears the reason. The first time it has the
        # operator as well; then the same reason is not told again.
        told = re.findall(r"^oort: request \S+ failed: .*rank 1 \(.*$", errors[0], re.MULTILINE)
        self.assertEqual(len(told), 2, errors[0])

    def test_a_server_that_cannot_begin_says_why(self):
        serve = ["--port", 0, "--threads", 1, "--quiet"]
        broken = self.write("broken.gguf", "this is no model\n")
        for words, says in ((["serve", self.dir / "nothing.gguf"], "cannot open .*nothing.gguf"),
                            (["serve", broken], "broken.gguf.* is no language model")):
            job = self.start_alone([*words, *serve, "--ranks", 2])
            codes, outs, errors = self.finish([job])
            self.assertEqual((codes, outs), ([1], [""]), errors)
            self.assertRegex(errors[0], rf"\Aoort: [^\n]*{says}[^\n]*\n\Z")
        port = free_port()
        jobs = [self.start(["serve", file, *serve], rank, 2, port) for rank, file in enumerate((STORYTELLER, broken))]
        codes, _, errors = self.finish(jobs)
        self.assertEqual(codes, [1, 1], errors)
        for error in errors:
            self.assertRegex(error, r"\Aoort: [^\n]*broken.gguf[^\n]*\n\Z")


if __name__ == "__main__":
    unittest.main()
