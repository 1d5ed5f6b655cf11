# SPDX-License-Identifier: MIT
"""Trains heads that guess what the storyteller says after its next token, in the form of Medusa's: head i reads what
the model's own head reads and says which token stands i + 1 places behind the next one. Writes heads/config.json and
heads/medusa_lm_head.safetensors (f16), for `oort generate models/storyteller --draft models/storyteller/heads`.
    python3 models/storyteller/heads.py [--heads N] [--steps N] [--count ANSWERS]
It needs numpy and tokenizers, and takes minutes on one core. --count trains nothing: it reads the folder and counts how
often guesses are right in the model's own answers, and what trees of guesses would give."""
import argparse
import json
import math
import pathlib
import random
import struct
import time

import numpy
from tokenizers import Tokenizer

from samples import CONTEXT, encode, texts

FOLDER = pathlib.Path(__file__).resolve().parent
LABELS = {"F32": numpy.float32, "F16": numpy.float16}


def read_tensors(path):
    """Tensors of a safetensors file as f32."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + at for at in entry["data_offsets"])
        if entry["dtype"] == "BF16":
            values = (numpy.frombuffer(data[begin:end], "<u2").astype(numpy.uint32) << 16).view(numpy.float32)
        else:
            values = numpy.frombuffer(data[begin:end], LABELS[entry["dtype"]]).astype(numpy.float32)
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def write_tensors(path, tensors):
    header, data = {}, b""
    for name, values in tensors.items():
        part = values.astype(numpy.float16).tobytes()
        header[name] = {"dtype": "F16", "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class Storyteller:
    """The model without its head: what that reads, of rows of tokens of one length."""

    def __init__(self):
        self.config = json.loads((FOLDER / "config.json").read_text())
        self.weights = read_tensors(FOLDER / "model.safetensors")
        self.table = self.weights["model.embed_tokens.weight"]
        head = self.config["head_dim"]
        rates = self.config["rope_theta"] ** (-numpy.arange(0, head, 2) / head)
        angles = numpy.outer(numpy.arange(CONTEXT), rates)
        self.cosines, self.sines = numpy.cos(angles).astype("f4"), numpy.sin(angles).astype("f4")

    def norm(self, name, x):
        size = numpy.sqrt((x * x).mean(-1, keepdims=True) + self.config["rms_norm_eps"])
        return x / size * self.weights[name + ".weight"]

    def linear(self, name, x):
        return x @ self.weights[name + ".weight"].T

    def turn(self, x):
        cosines, sines = self.cosines[:x.shape[2]], self.sines[:x.shape[2]]
        first, second = numpy.split(x, 2, axis=-1)
        return numpy.concatenate((first * cosines - second * sines, second * cosines + first * sines), -1)

    def attention(self, name, x):
        rows, length, _ = x.shape
        head, groups = self.config["head_dim"], self.config["num_key_value_heads"]
        query, key, value = (self.linear(f"{name}.{part}_proj", x).reshape(rows, length, -1, head).swapaxes(1, 2)
                             for part in "qkv")
        query = self.turn(query).reshape(rows, groups, -1, length, head)
        scores = query @ self.turn(key)[:, :, None].swapaxes(-1, -2) / math.sqrt(head)
        scores += numpy.triu(numpy.full((length, length), -1e9, "f4"), 1)
        scores = numpy.exp(scores - scores.max(-1, keepdims=True))
        mixed = scores / scores.sum(-1, keepdims=True) @ value[:, :, None]
        mixed = mixed.reshape(rows, -1, length, head).swapaxes(1, 2).reshape(rows, length, -1)
        return self.linear(name + ".o_proj", mixed)

    def hidden(self, ids):
        x = self.table[ids]
        for layer in range(self.config["num_hidden_layers"]):
            name = f"model.layers.{layer}"
            x = x + self.attention(name + ".self_attn", self.norm(name + ".input_layernorm", x))
            inner = self.norm(name + ".post_attention_layernorm", x)
            gate = self.linear(name + ".mlp.gate_proj", inner)
            up = self.linear(name + ".mlp.up_proj", inner)
            x = x + self.linear(name + ".mlp.down_proj", gate / (1 + numpy.exp(-gate)) * up)
        return self.norm("model.norm", x)


class Head:
    """logits = U (x + silu(W x + b)). U begins as the model's own head, but not as sure of the token before."""

    def __init__(self, table):
        size = table.shape[1]
        self.parts = {"w": numpy.zeros((size, size), "f4"), "b": numpy.zeros(size, "f4"), "u": 0.1 * table}
        self.moments = {name: (numpy.zeros_like(part), numpy.zeros_like(part)) for name, part in self.parts.items()}

    def logits(self, x):
        z = x @ self.parts["w"].T + self.parts["b"]
        return (x + z / (1 + numpy.exp(-z))) @ self.parts["u"].T

    def learn(self, x, labels, rate, step):
        """One step of Adam; returns the loss before it."""
        z = x @ self.parts["w"].T + self.parts["b"]
        gate = 1 / (1 + numpy.exp(-z))
        y = x + z * gate
        scores = y @ self.parts["u"].T
        scores -= scores.max(-1, keepdims=True)
        numpy.exp(scores, out=scores)
        scores /= scores.sum(-1, keepdims=True)
        places = numpy.arange(len(labels))
        loss = -numpy.log(scores[places, labels] + 1e-20).mean()
        scores[places, labels] -= 1
        scores /= len(labels)
        dz = scores @ self.parts["u"] * (gate + z * gate * (1 - gate))
        for name, slope in (("w", dz.T @ x), ("b", dz.sum(0)), ("u", scores.T @ y)):
            mean, square = self.moments[name]
            mean += 0.1 * (slope - mean)
            square += 0.01 * (slope * slope - square)
            self.parts[name] -= (rate * mean / (1 - 0.9 ** step)
                                 / (numpy.sqrt(square / (1 - 0.99 ** step)) + 1e-8)).astype("f4")
        return loss

    def tensors(self, index):
        return {f"{index}.0.linear.weight": self.parts["w"], f"{index}.0.linear.bias": self.parts["b"],
                f"{index}.1.weight": self.parts["u"]}


def batches(rows, size, seed):
    """Endless batches of rows of one length, cut to the shortest of those that are about as long."""
    rng = random.Random(seed)
    while True:
        order = sorted(range(len(rows)), key=lambda i: (len(rows[i]) // 8, rng.random()))
        groups = [order[i:i + size] for i in range(0, len(order) - size + 1, size)]
        rng.shuffle(groups)
        for group in groups:
            length = min(len(rows[i]) for i in group)
            yield numpy.array([rows[i][:length] for i in group])


def train(model, rows, args):
    heads = [Head(model.table) for _ in range(args.heads)]
    data, start = batches(rows, args.batch, seed=3), time.process_time()
    for step in range(1, args.steps + 1):
        ids = next(data)
        hidden = model.hidden(ids)
        rate = args.rate * min(1, step / 20) * (0.02 + 0.98 * (1 + math.cos(math.pi * step / args.steps)) / 2)
        losses = []
        for i, head in enumerate(heads):
            if ids.shape[1] <= i + 2:
                continue
            seen = hidden[:, :-2 - i].reshape(-1, hidden.shape[-1])
            losses.append(head.learn(seen, ids[:, 2 + i:].reshape(-1), rate, step))
        if step % args.report == 0 or step == args.steps:
            print(f"step {step}: losses {' '.join(f'{loss:.3f}' for loss in losses)}, "
                  f"{time.process_time() - start:.0f} s of the processor", flush=True)
    return heads


def places_of_answers(model, heads):
    """Of every place of the model's own greedy answers, and each head: where the token that came stood among its
    guesses, 0 for the first."""
    found = []
    for answer in json.loads((FOLDER / "answers.json").read_text()):
        ids = numpy.array(answer["prompt_ids"] + answer["ids"])
        hidden = model.hidden(ids[None])[0]
        # The state that token i was picked of is that of i - 1.
        for i in range(len(answer["prompt_ids"]), len(ids) - len(heads)):
            ranks = []
            for j, head in enumerate(heads):
                logits = head.logits(hidden[i - 1])
                ranks.append(int((logits > logits[ids[i + 1 + j]]).sum()))
            found.append(ranks)
    return found


def count(model, heads, most):
    """How often guesses are right, and tokens a step of chains and of trees with as many guesses."""
    places = places_of_answers(model, heads)
    for j in range(len(heads)):
        shares = [sum(ranks[j] == rank for ranks in places) / len(places) for rank in range(3)]
        print(f"head {j}: right as first, second, third guess {' '.join(f'{share:.3f}' for share in shares)}")
    # A path is the rank of the guess at each of its places. The best tree of n guesses has those that most often are
    # right together with all before them, which are in it, too.
    often = {}
    for ranks in places:
        for depth in range(1, len(heads) + 1):
            if max(ranks[:depth]) < 4:
                often[tuple(ranks[:depth])] = often.get(tuple(ranks[:depth]), 0) + 1
    best = sorted(often, key=lambda path: (-often[path], path))
    for guesses in range(1, most + 1):
        chain = sum(often.get((0,) * depth, 0) for depth in range(1, min(guesses, len(heads)) + 1))
        tree = sum(often[path] for path in best[:guesses])
        print(f"{guesses} guesses: {1 + chain / len(places):.3f} tokens a step of a chain, "
              f"{1 + tree / len(places):.3f} of a tree")


def read_heads(model, folder):
    tensors, heads = read_tensors(folder / "medusa_lm_head.safetensors"), []
    while f"{len(heads)}.1.weight" in tensors:
        head, index = Head(model.table), len(heads)
        head.parts = {"w": tensors[f"{index}.0.linear.weight"], "b": tensors[f"{index}.0.linear.bias"],
                      "u": tensors[f"{index}.1.weight"]}
        heads.append(head)
    return heads


def write(folder, heads):
    folder.mkdir(exist_ok=True)
    tensors = {}
    for i, head in enumerate(heads):
        tensors.update(head.tensors(i))
    write_tensors(folder / "medusa_lm_head.safetensors", tensors)
    config = {"medusa_num_heads": len(heads), "medusa_num_layers": 1, "base_model_name_or_path": "models/storyteller"}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heads", type=int, default=3)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--texts", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=12, help="texts of a step")
    parser.add_argument("--rate", type=float, default=1e-2)
    parser.add_argument("--report", type=int, default=25, help="steps between lines of progress")
    parser.add_argument("--count", type=int, metavar="N", help="count guesses, up to N in a step, and train nothing")
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER / "heads")
    args = parser.parse_args()
    model = Storyteller()
    if args.count:
        count(model, read_heads(model, args.folder), args.count)
        return
    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    rows = [ids for ids in (encode(tokenizer, sample) for sample in texts(1, args.texts)) if len(ids) <= CONTEXT]
    write(args.folder, train(model, rows, args))


if __name__ == "__main__":
    main()
