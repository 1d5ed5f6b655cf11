# SPDX-License-Identifier: MIT
# The cells of tour.ipynb: `tools/notebook` runs them and writes it, with what they print and draw.
# %% [markdown]
# # Oort from Python, with pictures
#
# A network that reads digits, in 32 and in 8 bits, where its time goes, and a small language model that tells a
# story. Everything runs on the CPU with models of this repository. You need the package `oort`
# ([how to install it](../python.md)), numpy and matplotlib.
# %%
import os
import time

import matplotlib.pyplot as plt
import numpy

import oort

if not os.path.isdir("models"):  # Jupyter starts where the notebook lies
    os.chdir("../..")
print("oort", oort.__version__, "on", ", ".join(oort.devices()), "with kernels for", ", ".join(oort.isas()))
# %% [markdown]
# ## A network reads digits
#
# `oort.load` takes a folder or a file of pnnx. A network is called with numpy arrays, and gives numpy arrays.
# %%
net = oort.load("models/digits")
drawn = numpy.load("models/digits/drawn/in0.npy")  # 200 pictures that a script drew, 28 x 28
labels = numpy.load("models/digits/drawn/labels.npy")
pictures = drawn.astype(numpy.float32) / 255
scores = net(pictures)
print(net)
print(f"{(scores.argmax(1) == labels).sum()} of {len(labels)} are read right")
# %%
figure, places = plt.subplots(2, 10, figsize=(10, 2.4))
for place, picture, row in zip(places.flat, pictures[::10], scores[::10]):
    place.imshow(picture[0], cmap="gray")
    place.set_title(str(row.argmax()), fontsize=10)
    place.axis("off")
figure.suptitle("What the network reads")
# %% [markdown]
# ## How sure it is
#
# A digit is turned around its middle, a few degrees at a time. All turned pictures are one batch: one call.


# %%
def turned(picture, degrees):
    """The picture, turned; each pixel is that of its nearest origin."""
    y, x = numpy.mgrid[:28, :28] - 13.5
    c, s = numpy.cos(numpy.radians(degrees)), numpy.sin(numpy.radians(degrees))
    rows = numpy.clip(numpy.rint(c * y - s * x + 13.5), 0, 27).astype(int)
    columns = numpy.clip(numpy.rint(s * y + c * x + 13.5), 0, 27).astype(int)
    return picture[rows, columns]


def softmax(x):
    e = numpy.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


angles = numpy.arange(-90, 91, 5)
six = pictures[labels == 6][0, 0]
batch = numpy.stack([turned(six, angle) for angle in angles])[:, None]
likely = softmax(net(batch))
# %%
figure, (above, below) = plt.subplots(2, 1, figsize=(9, 4), gridspec_kw={"height_ratios": [1, 3]})
above.imshow(numpy.hstack(list(batch[::6, 0])), cmap="gray")
above.axis("off")
for digit in range(10):
    if likely[:, digit].max() > 0.2:
        below.plot(angles, likely[:, digit], label=str(digit))
below.set_xlabel("degrees")
below.set_ylabel("probability")
below.legend(title="digit")
# %% [markdown]
# ## What it is made of, and where the time goes
#
# `info` tells the operators as they run, behind the passes that fuse them; `profile` measures them. Both are tables in
# a notebook.
# %%
net.info()
# %%
profile = oort.profile(net, pictures[:1], runs=20)
profile
# %% [markdown]
# ## In 8 bits
#
# `quantize` needs a few inputs of the kind that the network will see.
# %%
report = oort.quantize("models/digits", "/tmp/tour.int8.pnnx.param", [pictures[i : i + 1] for i in range(0, 200, 10)])
small = oort.load(report["param"])
print(report)
# %%
figure, (sizes, answers) = plt.subplots(1, 2, figsize=(9, 3))
sizes.bar(["32 bits", "8 bits"], [report["float_bytes"] / 1000, report["bytes"] / 1000], color=["tab:gray", "tab:blue"])
sizes.set_ylabel("kB of weights")
answers.scatter(scores.ravel(), small(pictures).ravel(), s=2)
answers.set_xlabel("scores in 32 bits")
answers.set_ylabel("scores in 8 bits")
figure.tight_layout()
# %% [markdown]
# ## A language model
#
# A stream gives the pieces of an answer while it comes. Here it is asked for the log-probability of each token, too:
# low bars are where the story could have gone on in another way.
# %%
model = oort.LanguageModel("models/storyteller")
question = [{"role": "user", "content": "Tell me a story about a fox."}]
pieces = list(model.chat(question, max_tokens=40, logprobs=0, stream=True))
print("".join(pieces))
# %%
told = [piece for piece in pieces if piece.token >= 0]
figure, place = plt.subplots(figsize=(10, 2.8))
place.bar(range(len(told)), [numpy.exp(piece.logprob) for piece in told])
place.set_xticks(range(len(told)), [piece.strip() for piece in told], rotation=90, fontsize=7)
place.set_ylabel("probability")
# %% [markdown]
# ## Several answers at once
#
# One engine computes all requests of a model together, so that two answers take less than twice the time of one.
# %%
counts, speeds = [1, 2, 4, 8, 16], []
for count in counts:
    start = time.perf_counter()
    told = model.generate(["Once upon a time"] * count, max_tokens=100, ignore_end=True, temperature=1.0)
    speeds.append(sum(len(answer.tokens) for answer in told) / (time.perf_counter() - start))
# %%
figure, place = plt.subplots(figsize=(6, 2.8))
place.plot(counts, speeds, "o-")
place.set_xlabel("answers at once")
place.set_ylabel("tokens per second, all together")
place.set_ylim(bottom=0)
