#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`oort chat` from outside: through a pipe, on a terminal, and with Ctrl-C."""
import json
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
        done = subprocess.run([OORT, "chat", *map(str, arguments)], input=text.encode(), capture_output=True,
                              timeout=300)
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
        for arguments, says in (([STORYTELLER, "--system", "x"], "user and assistant alone"),
                                ([self.dir / "none"], "none")):
            out, err = self.chat("Hello!\n", *arguments, code=1)
            self.assertEqual(out, "")
            self.assertRegex(err, r"\Aoort: [^\n]+\n\Z")
            self.assertIn(says, err)
        self.assertEqual(self.chat("", STORYTELLER), ("", ""))

    def test_a_line_that_cannot_be_answered_is_told_and_the_others_go_on(self):
        lines = [b"Hello!", b"no text: \xff\xfe", b"/hlep", b"word " * 600, b"Hello again!"]
        arguments = [OORT, "chat", STORYTELLER, "--max-tokens", "5", *PARITY]
        done = subprocess.run([*map(str, arguments)], input=b"\n".join(lines), capture_output=True, timeout=300)
        errors = done.stderr.decode().splitlines()
        self.assertEqual([line[:13] for line in errors], ["oort: line 2:", "oort: line 3:", "oort: line 4:"])
        self.assertIn("no valid UTF-8", errors[0])
        self.assertIn("/help", errors[1])
        self.assertRegex(errors[2], r"the message has \d+ tokens, the context 512: .*--context")
        # As if the lines between had not been there.
        self.assertEqual(done.stdout.decode(), self.chat("Hello!\nHello again!\n", *arguments[2:])[0])
        self.assertEqual(done.returncode, 1)

    def test_a_full_context_loses_the_oldest_turns(self):
        ask = [STORYTELLER, "--context", 160, "--max-tokens", 40, *PARITY]
        out, err = self.chat("Tell me a story.\n" * 12, *ask)
        self.assertGreaterEqual(out.count("\n"), 12)
        self.assertRegex(err, r"\Aoort: the context of 160 tokens is full: [^\n]+\n\Z")

    def test_help(self):
        out, _ = self.chat("/help\n", STORYTELLER)
        for word in ("/clear", "/exit", "/help", "/image", "Ctrl-C"):
            self.assertIn(word, out)

    def test_on_a_terminal(self):
        screen = Terminal(self, STORYTELLER, "--max-tokens", 12, "--threads", 1)
        self.assertIn("llama, 4 layers", screen.until(b"> "))
        screen.type("Hello!\n")
        shown = screen.until(b"\n> ")
        self.assertRegex(shown, r"\[prompt \d+ tokens, [\d.]+ tokens/s; answer \d+ tokens, [\d.]+ tokens/s; first "
                                r"token after \d+ ms\]")
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

    def start(self, command, *arguments, **options):
        pipe = subprocess.PIPE
        words = [OORT, command, write_babbler(self.dir / "babbler"), *arguments]
        process = subprocess.Popen([*map(str, words)], stdin=pipe, stdout=pipe, stderr=pipe, **options)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def interrupt_answer(self, process, code):
        first = os.read(process.stdout.fileno(), 1)
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=SECONDS)
        self.assertEqual((process.returncode, err), (code, b""))
        self.assertNotEqual(first, b"")
        self.assertLess(len(rest), 6000)

    def test_ctrl_c_stops_the_answer_through_a_pipe(self):
        chat = self.start("chat", *self.LONG)
        chat.stdin.write(b"Hello!\n/exit\n")
        chat.stdin.flush()
        self.interrupt_answer(chat, 0)  # it read on, and left as it was told

    def test_ctrl_c_ends_generate(self):
        self.interrupt_answer(self.start("generate", "--prompt", "Hello!", "--ignore-end", *self.LONG), 130)

    def test_ctrl_c_ends_a_prompt(self):
        """Signals are ignored until the program asks for them, which it does before it reads the prompt."""
        ignore = lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)  # noqa: E731
        ask = ["--raw", "--prompt", "-", "--max-tokens", 1, "--threads", 1, "--json"]
        generate = self.start("generate", *ask, preexec_fn=ignore)
        generate.stdin.write(b"Once upon a time " * 1000)
        generate.stdin.close()
        generate.stdin = None
        while generate.poll() is None:
            generate.send_signal(signal.SIGINT)
            time.sleep(0.002)
        out, _ = generate.communicate()
        report = json.loads(out)
        self.assertEqual(generate.returncode, 130)
        self.assertGreater(len(report["prompt_token_ids"]), 2000)
        self.assertEqual((report["finish_reason"], report["token_ids"]), ("cancelled", []))
        self.assertEqual(report["timings"]["prompt_tokens_per_second"], 0)


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
