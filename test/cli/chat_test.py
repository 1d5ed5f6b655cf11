#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`oort chat` from outside: through a pipe, on a terminal, and with Ctrl-C."""
import os
import pty
import re
import select
import signal
import subprocess
import time
import unittest

from cli_test import OORT, Case
from hollow import write_hollow_model
from language_test import ANSWERS, CHATS, PARITY, STORYTELLER

SECONDS = 120  # to wait for what must come


def write_babbler(folder):
    """A model whose answers are long, and each token takes a while."""
    write_hollow_model(folder, layers=8, feed=1536, vocabulary=1024, dtype="BF16", words=STORYTELLER)
    return folder


class ChatTest(Case):
    def chat(self, text, *arguments, code=0):
        done = subprocess.run([OORT, "chat", *map(str, arguments)], input=text.encode(), capture_output=True, timeout=300)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout.decode(), done.stderr.decode()

    def test_a_piped_conversation(self):
        """Answers alone, one behind the other; what was said before belongs to the prompt."""
        talk = next(row for row in ANSWERS if row["messages"] and len(row["messages"]) == 3)
        first, second = talk["messages"][0]["content"], talk["messages"][2]["content"]
        out, err = self.chat(f"{first}\n\n{second}\n", STORYTELLER, "--max-tokens", 200, *PARITY)
        self.assertEqual(out, talk["messages"][1]["content"] + "\n" + talk["text"] + "\n")
        self.assertEqual(err, "")

    def test_clear_forgets_and_exit_leaves(self):
        row = CHATS[1]
        asked = row["messages"][0]["content"]
        out, _ = self.chat(f"Hello!\n/clear\n{asked}\n/exit\nHello!\n", STORYTELLER, "--max-tokens", 200, *PARITY)
        self.assertTrue(out.endswith("\n" + row["text"] + "\n"))
        self.assertEqual(out.count(row["text"]), 1)

    def test_errors(self):
        for arguments, says in (([STORYTELLER, "--system", "x"], "user and assistant alone"), ([self.dir / "none"], "none")):
            out, err = self.chat("Hello!\n", *arguments, code=1)
            self.assertEqual(out, "")
            self.assertRegex(err, r"\Aoort: [^\n]+\n\Z")
            self.assertIn(says, err)
        self.assertEqual(self.chat("", STORYTELLER), ("", ""))

    def test_on_a_terminal(self):
        screen = Terminal(self, STORYTELLER, "--max-tokens", 12, "--threads", 1)
        self.assertIn("llama, 4 layers", screen.until(b"> "))
        screen.type("Hello!\n")
        shown = screen.until(b"\n> ")
        self.assertRegex(shown, r"\[prompt \d+ tokens, [\d.]+ tokens/s; answer \d+ tokens, [\d.]+ tokens/s; first token after \d+ ms\]")
        screen.type("\x03")  # at the prompt it clears the line
        self.assertIn("/exit leaves", screen.until(b"> "))
        screen.type("\x04")
        self.assertEqual(screen.wait(), 0)


class ChatInterruptTest(Case):
    LONG = ["--temperature", 1, "--max-tokens", 6000, "--threads", 1]

    def test_ctrl_c_stops_the_answer_on_a_terminal(self):
        screen = Terminal(self, write_babbler(self.dir / "babbler"), *self.LONG)
        screen.until(b"> ")
        for _ in range(2):
            screen.type("Hello!\n")
            screen.until(b"\n")  # what was typed
            screen.some()
            screen.type("\x03")
            shown = screen.until(b"\n> ")
            self.assertIn("(stopped)", shown)
            tokens = int(re.search(r"answer (\d+) tokens", shown)[1])
            self.assertLess(tokens, 6000)
        screen.type("/exit\n")
        self.assertEqual(screen.wait(), 0)

    def test_ctrl_c_stops_the_answer_through_a_pipe(self):
        chat = subprocess.Popen(
            [OORT, "chat", write_babbler(self.dir / "babbler"), *map(str, self.LONG)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(lambda: chat.poll() is None and chat.kill())
        chat.stdin.write(b"Hello!\n/exit\n")
        chat.stdin.flush()
        first = os.read(chat.stdout.fileno(), 1)
        chat.send_signal(signal.SIGINT)
        rest, err = chat.communicate(timeout=SECONDS)
        # It read on, and left as it was told.
        self.assertEqual((chat.returncode, err), (0, b""))
        self.assertNotEqual(first, b"")
        self.assertLess(len(rest), 6000)

    def test_ctrl_c_ends_generate(self):
        generate = subprocess.Popen(
            [OORT, "generate", write_babbler(self.dir / "babbler"), "--prompt", "Hello!", "--ignore-end", *map(str, self.LONG)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(lambda: generate.poll() is None and generate.kill())
        first = os.read(generate.stdout.fileno(), 1)
        generate.send_signal(signal.SIGINT)
        rest, err = generate.communicate(timeout=SECONDS)
        self.assertEqual((generate.returncode, err), (130, b""))
        self.assertNotEqual(first, b"")
        self.assertLess(len(rest), 6000)


class Terminal:
    """`oort chat` on a terminal of its own, where control characters are keys."""

    def __init__(self, case, *arguments):
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.execv(OORT, [OORT, "chat", *map(str, arguments)])
        self.seen = b""
        self.status = None
        case.addCleanup(self.close)

    def type(self, text):
        os.write(self.file, text.encode())

    def some(self):
        ready, _, _ = select.select([self.file], [], [], SECONDS)
        if not ready:
            raise AssertionError(f"nothing more than {self.seen!r}")
        try:
            self.seen += os.read(self.file, 65536).replace(b"\r\n", b"\n")
        except OSError:  # the end, on Linux
            raise AssertionError(f"it ended with {self.seen!r}") from None

    def until(self, mark):
        """What came up to the mark, with it."""
        while mark not in self.seen:
            self.some()
        end = self.seen.index(mark) + len(mark)
        shown, self.seen = self.seen[:end], self.seen[end:]
        return shown.decode(errors="replace")

    def wait(self):
        end = time.monotonic() + SECONDS
        while self.status is None and time.monotonic() < end:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.status = os.waitstatus_to_exitcode(status)
            else:
                time.sleep(0.01)
        return self.status

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.file)


if __name__ == "__main__":
    unittest.main()
