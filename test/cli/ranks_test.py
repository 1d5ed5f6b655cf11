#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One model on several ranks: threads, and processes of mpirun, where that and the plug-in for it are there.

OORT_RANK_FAULTS=200 kills and stops so many ranks instead of a few."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time
import unittest

from cli_test import OORT
from language_test import RAW, STORYTELLER, TINY, LanguageCase
from rank_work import await_work

ASK = ["generate", STORYTELLER, "--raw", "--prompt", "Once upon a time", "--max-tokens", 24, "--threads", 1]
PLUGIN = pathlib.Path(OORT).parent / "liboort-mpi.so"
FAULTS = int(os.environ.get("OORT_RANK_FAULTS", "4"))


class RanksTest(LanguageCase):
    def test_exact_ranks_answer_as_one(self):
        for exact in ([], ["--exact"]):
            alone = self.json(*ASK, *exact)
            for ranks in (2, 3, 5):
                together = self.json(*ASK, *exact, "--ranks", ranks, "--split", "exact")
                self.assertEqual(together["token_ids"], alone["token_ids"], f"{ranks} ranks {exact}")

    def test_fast_ranks_answer_the_same_each_time(self):
        once, again = (self.json(*ASK, "--ranks", 2, "--split", "fast", "--logprobs", 2) for _ in range(2))
        self.assertEqual(once["token_ids"], again["token_ids"])
        self.assertEqual(once["logprobs"], again["logprobs"])

    def test_draws_and_batches(self):
        draw = [*ASK, "--temperature", 1, "--seed", 3, "--n", 3]
        alone, together = self.json(*draw), self.json(*draw, "--ranks", 2, "--split", "exact")
        self.assertEqual([a["text"] for a in together["others"]], [a["text"] for a in alone["others"]])
        bench = ["bench-llm", STORYTELLER, "--prompt-tokens", 16, "--new-tokens", 4, "--rounds", 1]
        last = self.oort(*bench, "--ranks", 2, "--threads", 1)
        self.assertRegex(last.out.splitlines()[-1], r"^prefill_tps [\d.]+ decode_tps [\d.]+$")

    def test_one_of_eight_is_measured_alone(self):
        bench = ["bench-llm", STORYTELLER, "--prompt-tokens", 16, "--new-tokens", 4, "--rounds", 1, "--threads", 1]
        whole = self.json(*bench)
        self.assertEqual((whole["ranks"], whole["exchange"], whole["device"]), (1, "none", "cpu"))
        alone = self.json(*bench, "--shard", "0/8")
        self.assertEqual((alone["shard"], alone["ranks"], alone["exchange"]), ("0/8", 8, "none"))
        self.assertGreater(alone["decode_tps"], 0)
        self.assertLess(alone["bytes_per_token"], whole["bytes_per_token"] / 2)
        self.assertEqual(self.json(*bench, "--ranks", 2)["exchange"], "host")
        self.fails(*bench, "--shard", "0/8", "--ranks", 2, code=2, says="leave out --ranks")

    def test_nccl_is_for_gpus(self):
        self.fails(*ASK, "--ranks", 2, "--exchange", "nccl", code=1, says="for ranks on GPUs")
        self.fails(*ASK, "--ranks", 2, "--exchange", "pigeon", code=2, says="--exchange")

    def test_encoder_decoders_share_all_but_the_encoder(self):
        ask = ["generate", TINY / "t5", "--prompt", "the cat sat on a mat", "--max-tokens", 12, "--ignore-end"]
        alone = self.json(*ask)
        for split in ("exact", "fast"):
            together = self.json(*ask, "--ranks", 3, "--split", split)
            self.assertEqual(together["token_ids"], alone["token_ids"], split)
        self.fails(*ask, "--ranks", 2, "--split", "pipeline", says="is not for encoder-decoders")

    def test_perplexity_is_that_of_one_rank(self):
        text = self.dir / "text.txt"
        text.write_text(RAW[0]["text"] if RAW else "Once upon a time there was a little dog.")
        ask = ["perplexity", STORYTELLER, text, "--threads", 1, "--exact"]
        self.assertEqual(self.oort(*ask, "--ranks", 2).out, self.oort(*ask).out)

    def test_what_makes_no_sense_is_refused(self):
        self.fails(*ASK, "--ranks", 0, code=2, says="neither a number from 1 to 64 nor mpi")
        self.fails(*ASK, "--ranks", "many", code=2, says="neither a number")
        missing = self.dir / "nothing.gguf"
        self.fails("generate", missing, "--prompt", "a", "--ranks", 3, code=1, says="nothing.gguf")


def launcher():
    """mpirun with what lets a few processes share a small machine; None where there is none."""
    program = shutil.which("mpirun")
    if program is None or not PLUGIN.exists():
        return None
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    if "Open MPI" not in version and "OpenRTE" not in version:
        return [program]
    shared = ["--mca", "btl_vader_single_copy_mechanism", "none"]  # containers forbid the other way
    return [program, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", *shared]


MPIRUN = launcher()


def mpich_launcher():
    """mpiexec of MPICH where that and its own plug-in are there beside Open MPI."""
    program = shutil.which("mpiexec.mpich") or shutil.which("mpiexec.hydra")
    return [program] if program and PLUGIN.with_name("liboort-mpich.so").exists() else None


MPICH = mpich_launcher()


@unittest.skipIf(MPICH is None, "no MPICH beside another MPI, or no plug-in for it")
class MpichTest(LanguageCase):
    def run_ranks(self, *words):
        command = [*MPICH, "-n", "2", OORT, *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def test_processes_answer_as_one(self):
        alone = self.json(*ASK)
        for split in ("exact", "pipeline"):
            done = self.run_ranks(*ASK, "--split", split, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["token_ids"], alone["token_ids"], split)

    @unittest.skipIf(MPIRUN is None, "no other MPI")
    def test_a_plugin_of_another_mpi_is_refused(self):
        environment = {**os.environ, "OORT_MPI": str(PLUGIN)}
        command = [*MPICH, "-n", "2", OORT, *map(str, ASK)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("that of another MPI", done.stderr)


@unittest.skipIf(MPIRUN is None, "no mpirun, or no plug-in for it")
class MpiTest(LanguageCase):
    def start(self, *words):
        command = [*MPIRUN, *map(str, words)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        job = subprocess.Popen(command, **pipes, text=True, start_new_session=True)
        self.addCleanup(self.end, job)
        return job

    @staticmethod
    def end(job):
        """Whatever the test has come to, nothing of it goes on."""
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        job.stdout.close()
        job.stderr.close()

    def finish(self, job, seconds=120):
        try:
            out, error = job.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            raise
        return job.returncode, out, error

    def test_processes_answer_as_one(self):
        alone = self.json(*ASK)
        for ranks in (2, 3):
            code, out, error = self.finish(self.start("-n", ranks, OORT, *ASK, "--split", "exact", "--json"))
            self.assertEqual(code, 0, error)
            self.assertEqual(json.loads(out)["token_ids"], alone["token_ids"])  # printed once: it is one JSON

    def test_every_family_has_the_bits_of_one(self):
        folders = [TINY / name for name in ("t5", "t5_gated", "bart")]
        for number, file in enumerate([*sorted(TINY.glob("*.gguf")), *folders]):
            ranks = 2 + number % 3
            ask = ["generate", file, "--raw", "--prompt", "the cat", "--max-tokens", 6, "--ignore-end", "--exact"]
            ask += ["--logprobs", 2]
            alone = self.json(*ask)
            code, out, error = self.finish(self.start("-n", ranks, OORT, *ask, "--split", "exact", "--json"))
            self.assertEqual(code, 0, error)
            together = json.loads(out)
            self.assertEqual(together["token_ids"], alone["token_ids"], f"{file.stem} on {ranks} ranks")
            self.assertEqual(together["logprobs"], alone["logprobs"], f"{file.stem} on {ranks} ranks")

    def test_processes_give_the_bits_of_threads(self):
        ask = [*ASK, "--split", "fast", "--logprobs", 3, "--json"]
        threads = self.json(*ask[:-1], "--ranks", 2)
        code, out, error = self.finish(self.start("-n", 2, OORT, *ask))
        self.assertEqual(code, 0, error)
        self.assertEqual(json.loads(out)["logprobs"], threads["logprobs"])

    def test_a_rank_without_the_file_ends_all(self):
        missing = self.dir / "nothing.gguf"
        other = ["generate", missing, *ASK[2:]]
        code, _, error = self.finish(self.start("-n", 1, OORT, *ASK, ":", "-n", 1, OORT, *other))
        self.assertNotEqual(code, 0)
        self.assertIn("nothing.gguf", error)

    def test_a_rank_with_another_model_ends_all(self):
        other = ["generate", TINY / "llama.gguf", *ASK[2:]]
        code, _, error = self.finish(self.start("-n", 1, OORT, *ASK, ":", "-n", 1, OORT, *other))
        self.assertNotEqual(code, 0)
        self.assertIn("another model", error)

    def ranks_of(self, job, count):
        """Processes of the job that are ranks, once all are there."""
        for _ in range(200):
            found = []
            for entry in pathlib.Path("/proc").glob("[0-9]*"):
                try:
                    if os.getsid(int(entry.name)) != job.pid and not self.is_child(entry, job.pid):
                        continue
                    if (entry / "exe").resolve() == pathlib.Path(OORT).resolve():
                        found.append(int(entry.name))
                except (OSError, ProcessLookupError):
                    continue
            if len(found) == count:
                return found
            time.sleep(0.05)
        self.fail(f"{count} ranks did not start")
        return []

    @staticmethod
    def is_child(entry, parent):
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
        return int(fields[1]) == parent

    def test_a_rank_that_dies_or_hangs_ends_all_in_time(self):
        deadline = 2
        bench = ["bench-llm", STORYTELLER, "--prompt-tokens", 24, "--new-tokens", 40, "--threads", 1]
        bench += ["--rounds", 100000]
        for turn in range(FAULTS):
            job = self.start("-n", 3, OORT, *bench, "--rank-deadline", deadline)
            victims = self.ranks_of(job, 3)
            await_work(self, victims)  # who is stopped before is waited for a minute
            time.sleep(random.uniform(0, 1))
            kind = signal.SIGKILL if turn % 2 == 0 else signal.SIGSTOP
            os.kill(random.choice(victims), kind)
            hit = time.monotonic()
            code, _, error = self.finish(job, 60)
            self.assertNotEqual(code, 0, error)
            # Idle followers wait for twice the deadline; the rest is mpirun's, and a slow machine's.
            self.assertLess(time.monotonic() - hit, 2 * deadline + 30)
            if kind == signal.SIGSTOP:
                self.assertRegex(error, r"oort: .*rank \d")


if __name__ == "__main__":
    unittest.main()
