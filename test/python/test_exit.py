# SPDX-License-Identifier: MIT
"""The end of the interpreter, Ctrl-C and forks, each in a process of its own."""
import os
import signal
import subprocess
import sys

import pytest

LANGUAGE = """
import threading, sys, os, time, oort
model = oort.LanguageModel("models/storyteller", threads=1)
long = dict(max_tokens=480, ignore_end=True)
"""
# Far more than a test waits for: 400 products of large matrices, one behind the other.
NETWORK = """
import threading, sys, os, numpy, oort
names = [f"x{i}" for i in range(401)]
lines = ["pnnx.Input in0 0 1 x0 #x0=(1536,1536)f32"]
lines += [f"torch.matmul m{i} 2 1 {a} {a} {b}" for i, (a, b) in enumerate(zip(names, names[1:]))]
lines += [f"pnnx.Output out0 1 0 {names[-1]}"]
text = "7767517\\n%d %d\\n" % (len(lines), len(names)) + "\\n".join(lines) + "\\n"
slow = oort.load(text.encode(), threads=1)
x = numpy.zeros((1536, 1536), numpy.float32)
digits = oort.load("models/digits", threads=2)
picture = numpy.zeros((1, 1, 28, 28), numpy.float32)
"""

# A language model whose steps call Python, again and again.
CALLS_PYTHON = """
import sys, time, numpy, oort
class Norm:
    def __init__(self, params, weights): pass
    def forward(self, x):
        time.sleep(0.001)
        return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
oort.register("nn.RMSNorm", Norm, replace=True)
model = oort.LanguageModel("models/storyteller", threads=1, exact=True)
stream = model.generate("A", stream=True, max_tokens=480, ignore_end=True)
next(stream)
"""

ENDS = {
    "a model whose steps call Python, let go of in the middle": CALLS_PYTHON + "del model, stream",
    "one that is let go of last": CALLS_PYTHON + "del stream\ndel model",
    "one that nobody lets go": CALLS_PYTHON + "sys.keep = model, stream",
    "a model that nobody lets go": LANGUAGE + "sys.keep = model; sys.stream = model.generate('A', stream=True, **long)",
    "a stream that runs": LANGUAGE + "stream = model.generate('A', stream=True, **long); next(stream)",
    "a cycle": LANGUAGE + "a = [model, model.generate('A', stream=True, **long)]; a.append(a)",
    "daemon threads in streams": LANGUAGE + """
def work():
    for piece in model.generate("A", stream=True, **long): started.set()
started = threading.Event()
for i in range(4): threading.Thread(target=work, daemon=True).start()
started.wait()
""",
    "daemon threads that wait for answers": LANGUAGE + """
def work():
    started.set()
    while True: model.generate("A", **long)
started = threading.Event()
for i in range(4): threading.Thread(target=work, daemon=True).start()
started.wait()
""",
    "threads that end first": LANGUAGE + """
def work():
    assert len(model.generate("A", max_tokens=20, ignore_end=True).tokens) == 20
    print("done")
for i in range(3): threading.Thread(target=work).start()
""",
    "daemon threads in networks": NETWORK + """
def work():
    while True:
        digits(picture)
        started.set()
started = threading.Event()
for i in range(4): threading.Thread(target=work, daemon=True).start()
started.wait()
""",
    "a daemon thread in a long run": NETWORK + """
started = threading.Event()
def work():
    started.set()
    slow(x)
threading.Thread(target=work, daemon=True).start()
started.wait()
""",
    "an operator of Python in a daemon thread": """
import threading, numpy, oort
class Op:
    def __init__(self, params, weights): pass
    def forward(self, x):
        started.set()
        return x
started = threading.Event()
oort.register("test.Op", Op)
net = oort.load(b"7767517\\n3 2\\npnnx.Input in0 0 1 a #a=(4)f32\\ntest.Op op 1 1 a b\\npnnx.Output out0 1 0 b\\n")
def work():
    while True: net(numpy.zeros(4, numpy.float32))
for i in range(3): threading.Thread(target=work, daemon=True).start()
started.wait()
""",
    "an exception": LANGUAGE + "stream = model.generate('A', stream=True, **long)\nsys.exit(0)",
    "arrays that outlive their network": NETWORK + "sys.array = digits(picture); del digits",
    "a fork": NETWORK + """
first = digits(picture)
pictures = numpy.zeros((64, 1, 28, 28), numpy.float32)
expected = digits(pictures)
child = os.fork()
if child == 0:
    one, two = oort.load("models/digits", threads=1), oort.load("models/digits", threads=2)
    same = [numpy.array_equal(one(picture), first), numpy.array_equal(two(pictures), expected),
            numpy.array_equal(digits(pictures), expected)]
    sys.exit(0 if all(same) else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
""",
    "a fork while an answer runs": LANGUAGE + """
stream = model.generate("A", stream=True, **long)
next(stream)
while model.stats()["steps"] == 0: time.sleep(0.001)  # a step is counted behind what it tells
child = os.fork()
if child == 0:
    if model.stats()["steps"] > 0: sys.exit(4)  # the engine before the fork is gone
    sys.exit(0 if model.generate("A", max_tokens=3, ignore_end=True).finish == "length" else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
""",
}


def start(program, environment, **options):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-X", "dev", "-W", "ignore", "-c", program]

    def heed_control_c():  # what a shell starts in the background does not, nor do its children
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    options.setdefault("preexec_fn", heed_control_c)
    return subprocess.Popen(command, env=environment, start_new_session=True, **pipes, **options)


def ended(process, seconds):
    """What it said; what takes longer is ended, children and all."""
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise


@pytest.mark.parametrize("name", ENDS)
def test_the_interpreter_ends_without_a_word(name, environment):
    process = start(ENDS[name], environment)
    said, complaints = ended(process, 120)
    assert (process.returncode, complaints) == (0, ""), said


INTERRUPTED = {
    "a network": NETWORK + """
try:
    print("ready", flush=True)
    slow(x)
except KeyboardInterrupt:
    assert digits(picture).shape == (1, 10)
    print("stopped")
""",
    "an answer": LANGUAGE + """
try:
    print("ready", flush=True)
    while True: model.generate("A", **long)
except KeyboardInterrupt:
    assert model.generate("A", max_tokens=2, ignore_end=True).finish == "length"
    print("stopped")
""",
    "a batch, all of it": LANGUAGE + """
try:
    print("ready", flush=True)
    while True: model.generate(["A"] * 300, **long)
except KeyboardInterrupt as error:  # which keeps the call's streams
    assert model.generate("A", max_tokens=2, ignore_end=True).finish == "length"
    stats = model.stats()
    assert stats["waiting"] + stats["running"] < 10, stats
    print("stopped")
""",
    "a stream": LANGUAGE + """
try:
    print("ready", flush=True)
    while True:
        for piece in model.generate("A", stream=True, **long): pass
except KeyboardInterrupt:
    print("stopped")
""",
}


@pytest.mark.parametrize("name", INTERRUPTED)
def test_control_c_stops(name, environment):
    process = start(INTERRUPTED[name], environment)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    said, complaints = ended(process, 60)
    assert (process.returncode, said, complaints) == (0, "stopped\n", "")


def test_other_threads_run_while_a_network_does(environment):
    """A thread of Python stops the run from outside, which it could not if the call held the lock."""
    program = NETWORK + """
import signal
def stop():
    started.wait()
    signal.raise_signal(signal.SIGINT)
started = threading.Event()
threading.Thread(target=stop).start()
try:
    started.set()
    slow(x)
except KeyboardInterrupt:
    print("stopped")
"""
    process = start(program, environment)
    assert ended(process, 60) == ("stopped\n", "") and process.returncode == 0
