# SPDX-License-Identifier: MIT
"""Trains the storyteller from nothing: texts from corpus.py, a byte-level BPE tokenizer, a small Llama. Writes the
folder that `oort generate models/storyteller` reads: config.json, model.safetensors (bf16), tokenizer.json and their
settings.
    python3 models/storyteller/train.py [--steps N | --minutes M] [--threads N] [--folder FOLDER]
On a GPU: --minutes 2 --batch 64 --texts 60000 --beginnings 0.25 --report 500"""
import argparse
import json
import math
import pathlib
import random
import time

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.nn import functional

from llama import Llama
from samples import BEGIN, CONTEXT, END, SPECIAL, encode, texts

BEGINNING = 64
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 1024, "hidden_size": 128,
          "intermediate_size": 384, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
          "head_dim": 32, "hidden_act": "silu", "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5,
          "rope_theta": 10000.0, "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True,
          "initializer_range": 0.02, "bos_token_id": BEGIN, "eos_token_id": END, "torch_dtype": "bfloat16"}
TEMPLATE = """{{ bos_token }}{% for message in messages %}\
{% if message['role'] == 'user' %}{{ '<|user|>' + message['content'] + eos_token }}\
{% elif message['role'] == 'assistant' %}{{ '<|assistant|>' + message['content'] + eos_token }}\
{% else %}{{ raise_exception('The storyteller was trained on user and assistant alone.') }}{% endif %}\
{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"""


def train_tokenizer(samples):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        (text for sample in samples for _, text in sample),
        trainers.BpeTrainer(vocab_size=CONFIG["vocab_size"], special_tokens=SPECIAL, show_progress=False,
                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.post_processor = processors.TemplateProcessing(single="<|begin|> $A", pair="<|begin|> $A $B",
                                                             special_tokens=[("<|begin|>", BEGIN)])
    return tokenizer


def batches(rows, size, seed):
    """Endless batches of rows of about the same length, padded behind their end."""
    rng = random.Random(seed)
    while True:
        order = sorted(range(len(rows)), key=lambda i: (len(rows[i]) // 16, rng.random()))
        groups = [order[i:i + size] for i in range(0, len(order) - size + 1, size)]
        rng.shuffle(groups)
        for group in groups:
            yield pad([rows[i] for i in group])


def pad(rows):
    length = max(map(len, rows))
    ids = torch.full((len(rows), length), END)
    labels = torch.full((len(rows), length), -100)
    for i, row in enumerate(rows):
        ids[i, :len(row)] = labels[i, :len(row)] = torch.tensor(row)
    return ids, labels


class Muon(torch.optim.Optimizer):
    """Steps of matrices along the nearest orthogonal matrix (Keller Jordan's momentum with a Newton-Schulz iteration),
    in f32: a small model learns in about half the steps that AdamW takes, and they are what costs here."""

    def __init__(self, matrices, lr, momentum=0.95):
        super().__init__(matrices, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for matrix in group["params"]:
                state = self.state[matrix].setdefault("velocity", torch.zeros_like(matrix))
                state.mul_(group["momentum"]).add_(matrix.grad)
                update = orthogonal(matrix.grad + group["momentum"] * state)
                matrix.sub_(update, alpha=group["lr"] * max(1, matrix.shape[0] / matrix.shape[1]) ** 0.5)


def orthogonal(x):
    wide = x.shape[0] <= x.shape[1]
    x = (x if wide else x.T) / (x.norm() + 1e-7)
    for _ in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x if wide else x.T


def optimizers(model):
    """AdamW for embeddings, norms, queries and keys, Muon for the other matrices."""
    def is_matrix(name, parameter):
        return parameter.dim() == 2 and not any(part in name for part in ("embed", "q_proj", "k_proj"))

    named = list(model.named_parameters())
    return [Muon([p for name, p in named if is_matrix(name, p)], lr=0.02),
            torch.optim.AdamW([p for name, p in named if not is_matrix(name, p)], lr=4e-3, betas=(0.9, 0.95),
                              weight_decay=0.0)]


def set_rates(both, step, done):
    """A short warm-up, then a cosine over what is done of the training, 0 to 1."""
    share = min(1, (step + 1) / 40) * (0.02 + 0.98 * (1 + math.cos(math.pi * done)) / 2)
    for optimizer in both:
        for group in optimizer.param_groups:
            group["lr"] = share * group.setdefault("full_lr", group["lr"])


def loss_of(model, ids, labels):
    """Nats a token."""
    return functional.cross_entropy(model(ids)[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


def train(rows, held_out, args):
    model = Llama(CONFIG).to(args.device)
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {sum(map(len, rows))} tokens of text")
    if args.resume:
        weights = load_file(args.folder / "model.safetensors")
        model.load_state_dict({name: value.float() for name, value in weights.items()})
    # Beginnings first: what a story is to be about is not far away there, and copying it is learned soon.
    both, data = optimizers(model), batches(rows, args.batch, seed=3)
    beginnings = batches([row[:BEGINNING] for row in rows], 2 * args.batch, seed=4)
    start, used, step, done = time.monotonic(), time.process_time(), 0, 0.0
    while done < 1:
        ids, labels = (part.to(args.device) for part in next(beginnings if done < args.beginnings else data))
        loss = loss_of(model, ids, labels)
        model.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        set_rates(both, step, done)
        for optimizer in both:
            optimizer.step()
        step += 1
        done = (time.monotonic() - start) / 60 / args.minutes if args.minutes else step / args.steps
        if step % args.report == 0 or done >= 1:
            print(f"step {step}: loss {loss.item():.3f}, {time.monotonic() - start:.0f} s, of the processor "
                  f"{time.process_time() - used:.0f} s", flush=True)
    # What is written is rounded: measure that.
    rounded = {name: value.to(torch.bfloat16) for name, value in model.state_dict().items()}
    model.load_state_dict({name: value.float() for name, value in rounded.items()})
    with torch.no_grad():
        ids, labels = (part.to(args.device) for part in pad(held_out))
        print(f"held-out loss {loss_of(model, ids, labels).item():.3f} a token")
    return {name: value.cpu().contiguous() for name, value in rounded.items()}


def write(folder, tokenizer, weights):
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": SPECIAL[BEGIN], "eos_token": SPECIAL[END],
                "model_max_length": CONTEXT, "clean_up_tokenization_spaces": False, "chat_template": TEMPLATE}
    for name, content in (("config.json", CONFIG), ("tokenizer_config.json", settings),
                          ("generation_config.json", {"bos_token_id": BEGIN, "eos_token_id": END})):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--minutes", type=float, help="as many steps as fit into this time, instead")
    parser.add_argument("--texts", type=int, default=12000)
    parser.add_argument("--batch", type=int, default=16, help="texts of a step")
    parser.add_argument("--beginnings", type=float, default=0.4,
                        help="share of the training that sees beginnings of texts only")
    parser.add_argument("--report", type=int, default=25, help="steps between lines of progress")
    parser.add_argument("--resume", action="store_true", help="go on with the model in the folder")
    parser.add_argument("--threads", type=int, default=0, help="0: as torch likes")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    samples = list(texts(1, args.texts))
    if args.resume:
        tokenizer = Tokenizer.from_file(str(args.folder / "tokenizer.json"))
    else:
        tokenizer = train_tokenizer(samples[:6000])
    rows = [ids for ids in (encode(tokenizer, sample) for sample in samples) if len(ids) <= CONTEXT]
    held_out = [encode(tokenizer, sample)[:CONTEXT] for sample in texts(2, 200)]
    write(args.folder, tokenizer, train(rows, held_out, args))


if __name__ == "__main__":
    main()
