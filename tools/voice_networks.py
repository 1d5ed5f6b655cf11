#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""VITS, the networks of Piper's voices, as torch modules that pnnx can write.

Text to speech (Kim et al. 2021) in two networks: `Phonemes` tells for each phoneme what it sounds like and how long it
lasts, `Sound` makes a wave of that. What is drawn at random is an input, and what lies between both, the repeating of
each phoneme for its time, is left to the program.

Not a program: tools/export-model.py and test/cli/make_demo_nets.py import it.
"""
import json
import math

import torch
from torch import nn
from torch.nn import functional as F

BINS, BOUND, LEAST = 10, 5.0, 1e-3  # of splines


class ChannelNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        return F.layer_norm(x.transpose(1, 2), self.gamma.shape, self.gamma, self.beta, 1e-5).transpose(1, 2)


class RelativeAttention(nn.Module):
    """Attention in which near phonemes know how far apart they are."""

    def __init__(self, channels, heads, window):
        super().__init__()
        self.heads, self.width = heads, channels // heads
        self.emb_rel_k = nn.Parameter(0.1 * torch.randn(1, 2 * window + 1, self.width))
        self.emb_rel_v = nn.Parameter(0.1 * torch.randn(1, 2 * window + 1, self.width))
        self.conv_q, self.conv_k, self.conv_v, self.conv_o = (nn.Conv1d(channels, channels, 1) for _ in range(4))

    def forward(self, x, band):
        """`band` (i, j, distance) is 1 where phoneme j stands so far from i."""
        q, k, v = (part(x).reshape(self.heads, self.width, -1).transpose(1, 2)
                   for part in (self.conv_q, self.conv_k, self.conv_v))
        q = q / math.sqrt(self.width)
        near = torch.matmul(torch.matmul(q, self.emb_rel_k.transpose(1, 2)).transpose(0, 1), band.transpose(1, 2))
        weights = F.softmax(torch.matmul(q, k.transpose(1, 2)) + near.transpose(0, 1), -1)
        spread = torch.matmul(torch.matmul(weights.transpose(0, 1), band).transpose(0, 1), self.emb_rel_v)
        found = torch.matmul(weights, v) + spread
        return self.conv_o(found.transpose(1, 2).reshape(1, self.heads * self.width, -1))


class FeedForward(nn.Module):
    def __init__(self, channels, inner, kernel):
        super().__init__()
        self.conv_1 = nn.Conv1d(channels, inner, kernel, padding=kernel // 2)
        self.conv_2 = nn.Conv1d(inner, channels, kernel, padding=kernel // 2)

    def forward(self, x):
        return self.conv_2(torch.relu(self.conv_1(x)))


class Encoder(nn.Module):
    def __init__(self, channels, inner, heads, layers, window, kernel):
        super().__init__()
        self.attn_layers = nn.ModuleList(RelativeAttention(channels, heads, window) for _ in range(layers))
        self.norm_layers_1 = nn.ModuleList(ChannelNorm(channels) for _ in range(layers))
        self.ffn_layers = nn.ModuleList(FeedForward(channels, inner, kernel) for _ in range(layers))
        self.norm_layers_2 = nn.ModuleList(ChannelNorm(channels) for _ in range(layers))

    def forward(self, x, band):
        for attend, first, feed, second in zip(self.attn_layers, self.norm_layers_1, self.ffn_layers,
                                               self.norm_layers_2):
            x = first(x + attend(x, band))
            x = second(x + feed(x))
        return x


class TextEncoder(nn.Module):
    def __init__(self, phonemes, channels, latent, inner, heads, layers, window, kernel):
        super().__init__()
        self.emb = nn.Embedding(phonemes, channels)
        self.encoder = Encoder(channels, inner, heads, layers, window, kernel)
        self.proj = nn.Conv1d(channels, 2 * latent, 1)
        self.window = window

    def forward(self, tokens):
        places = torch.ones_like(tokens).cumsum(1).reshape(-1)
        distances = places.unsqueeze(0) - places.unsqueeze(1)
        band = (distances.unsqueeze(2) == torch.arange(-self.window, self.window + 1)).float()
        x = (self.emb(tokens) * math.sqrt(self.emb.embedding_dim)).transpose(1, 2)
        x = self.encoder(x, band)
        mean, deviation = self.proj(x).chunk(2, 1)
        return x, mean, deviation


class Separable(nn.Module):
    """Convolutions that see three times as far with every layer."""

    def __init__(self, channels, kernel, layers):
        super().__init__()
        wide = [kernel**i for i in range(layers)]
        self.convs_sep = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, dilation=d, padding=(kernel - 1) * d // 2, groups=channels)
            for d in wide)
        self.convs_1x1 = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in wide)
        self.norms_1 = nn.ModuleList(ChannelNorm(channels) for _ in wide)
        self.norms_2 = nn.ModuleList(ChannelNorm(channels) for _ in wide)

    def forward(self, x):
        for apart, together, first, second in zip(self.convs_sep, self.convs_1x1, self.norms_1, self.norms_2):
            x = x + F.gelu(second(together(F.gelu(first(apart(x))))))
        return x


def knots(parts):
    """Borders of the bins of a spline, from what a network says of their sizes; and these sizes."""
    sizes = LEAST + (1 - LEAST * BINS) * F.softmax(parts, -1)
    inner = 2 * BOUND * sizes.cumsum(-1)[..., :-1] - BOUND
    ends = inner[..., :1] * 0
    borders = torch.cat([ends - BOUND, inner, ends + BOUND], -1)
    return borders, borders[..., 1:] - borders[..., :-1]


def inverse_spline(y, widths, heights, slopes):
    """The rational-quadratic spline (Durkan et al. 2019) backwards; beyond BOUND it is the identity. `y` has an axis of
    1 behind, where the others have their bins."""
    lefts, widths = knots(widths)
    lows, heights = knots(heights)
    edge = slopes[..., :1] * 0 + math.log(math.exp(1 - LEAST) - 1)
    slopes = LEAST + F.softplus(torch.cat([edge, slopes, edge], -1))
    inside = y.clamp(-BOUND, BOUND)
    index = ((inside >= lows).float().sum(-1, keepdim=True) - 1).clamp(0, BINS - 1)
    here = (index == torch.arange(BINS).float()).float()

    def of_bin(values):
        return (values * here).sum(-1, keepdim=True)

    left, width, low, height = of_bin(lefts[..., :-1]), of_bin(widths), of_bin(lows[..., :-1]), of_bin(heights)
    before, behind, slope = of_bin(slopes[..., :-1]), of_bin(slopes[..., 1:]), of_bin(heights / widths)
    rise, bend = inside - low, before + behind - 2 * slope
    a, b, c = rise * bend + height * (slope - before), height * before - rise * bend, -slope * rise
    root = 2 * c / (-b - torch.sqrt((b * b - 4 * a * c).clamp(min=0)))
    return torch.where(y.abs() <= BOUND, root * width + left, y)


class SplineFlow(nn.Module):
    def __init__(self, channels, kernel, layers):
        super().__init__()
        self.pre = nn.Conv1d(1, channels, 1)
        self.convs = Separable(channels, kernel, layers)
        self.proj = nn.Conv1d(channels, 3 * BINS - 1, 1)
        self.scale = 1 / math.sqrt(channels)

    def forward(self, z, x):
        known, y = z[:, :1], z[:, 1:]
        h = self.proj(self.convs(self.pre(known) + x)).transpose(1, 2)
        y = inverse_spline(y.transpose(1, 2), h[..., :BINS] * self.scale, h[..., BINS : 2 * BINS] * self.scale,
                           h[..., 2 * BINS :])
        return torch.cat([known, y.transpose(1, 2)], 1)


class Affine(nn.Module):
    def __init__(self):
        super().__init__()
        self.m, self.shrink = nn.Parameter(torch.zeros(2, 1)), nn.Parameter(torch.ones(2, 1))

    def forward(self, z, _):
        return (z - self.m) * self.shrink


class Durations(nn.Module):
    def __init__(self, channels, kernel, layers):
        super().__init__()
        self.pre, self.proj = nn.Conv1d(channels, channels, 1), nn.Conv1d(channels, channels, 1)
        self.convs = Separable(channels, kernel, layers)
        self.flows = nn.ModuleDict({"0": Affine(), **{i: SplineFlow(channels, kernel, layers) for i in "357"}})

    def forward(self, x, noise):
        x, z = self.proj(self.convs(self.pre(x))), noise
        for i in "7530":
            z = self.flows[i](z.flip(1), x)
        return z[:, :1]


class Waves(nn.Module):
    """Gated convolutions, as in WaveNet."""

    def __init__(self, channels, kernel, layers):
        super().__init__()
        self.channels = channels
        self.in_layers = nn.ModuleList(nn.Conv1d(channels, 2 * channels, kernel, padding=kernel // 2)
                                       for _ in range(layers))
        self.res_skip_layers = nn.ModuleList(
            nn.Conv1d(channels, channels if i + 1 == layers else 2 * channels, 1) for i in range(layers))

    def forward(self, x):
        total = None
        for into, out in zip(self.in_layers, self.res_skip_layers):
            both = into(x)
            y = out(torch.tanh(both[:, : self.channels]) * torch.sigmoid(both[:, self.channels :]))
            if y.size(1) > self.channels:
                x, y = x + y[:, : self.channels], y[:, self.channels :]
            total = y if total is None else total + y
        return total


class Coupling(nn.Module):
    def __init__(self, latent, channels, kernel, layers):
        super().__init__()
        self.half = latent // 2
        self.pre, self.post = nn.Conv1d(self.half, channels, 1), nn.Conv1d(channels, self.half, 1)
        self.enc = Waves(channels, kernel, layers)

    def forward(self, z):
        known, other = z[:, : self.half], z[:, self.half :]
        return torch.cat([known, other - self.post(self.enc(self.pre(known)))], 1)


class Flow(nn.Module):
    def __init__(self, latent, channels, kernel, layers):
        super().__init__()
        self.flows = nn.ModuleDict({i: Coupling(latent, channels, kernel, layers) for i in "0246"})

    def forward(self, z):
        for i in "6420":
            z = self.flows[i](z.flip(1))
        return z


class Residual(nn.Module):
    def __init__(self, channels, kernel, dilations):
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, dilation=d, padding=(kernel - 1) * d // 2) for d in dilations)

    def forward(self, x):
        for conv in self.convs:
            x = x + conv(F.leaky_relu(x, 0.1))
        return x


class Generator(nn.Module):
    """HiFi-GAN (Kong et al. 2020). `ups`: (factor, kernel) of each stage; `blocks`: (kernel, dilations) within one."""

    def __init__(self, latent, channels, ups, blocks):
        super().__init__()
        self.conv_pre = nn.Conv1d(latent, channels, 7, padding=3)
        widths = [channels >> (i + 1) for i in range(len(ups))]
        self.ups = nn.ModuleList(
            nn.ConvTranspose1d(2 * width, width, kernel, factor, padding=(kernel - factor) // 2)
            for width, (factor, kernel) in zip(widths, ups))  # fmt: skip
        self.resblocks = nn.ModuleList(Residual(width, *block) for width in widths for block in blocks)
        self.conv_post = nn.Conv1d(widths[-1], 1, 7, padding=3, bias=False)
        self.blocks = len(blocks)

    def forward(self, x):
        x = self.conv_pre(x)
        for i, up in enumerate(self.ups):
            x = up(F.leaky_relu(x, 0.1))
            x = sum(block(x) for block in self.resblocks[i * self.blocks : (i + 1) * self.blocks]) / self.blocks
        return torch.tanh(self.conv_post(F.leaky_relu(x)))


class Vits(nn.Module):
    def __init__(self, phonemes=256, channels=192, latent=192, inner=768, heads=2, layers=6, window=4, kernel=3, flow=5,
                 flow_layers=4, start=256, ups=((8, 16), (8, 16), (4, 8)),
                 blocks=((3, (1, 2)), (5, (2, 6)), (7, (3, 12)))):  # fmt: skip
        super().__init__()
        self.latent = latent
        self.enc_p = TextEncoder(phonemes, channels, latent, inner, heads, layers, window, kernel)
        self.dp = Durations(channels, 3, 3)
        self.flow = Flow(latent, channels, flow, flow_layers)
        self.dec = Generator(latent, start, ups, blocks)


class Phonemes(nn.Module):
    """Phonemes (1, n) and noise (1, 2, n) to means and logarithms of deviations (1, latent, n), and of times (1, 1,
    n)."""

    def __init__(self, vits):
        super().__init__()
        self.vits = vits

    def forward(self, tokens, noise):
        x, mean, deviation = self.vits.enc_p(tokens)
        return mean, deviation, self.vits.dp(x, noise)


class Sound(nn.Module):
    """Frames (1, latent, n) to samples (1, 1, n * samples of a frame)."""

    def __init__(self, vits):
        super().__init__()
        self.vits = vits

    def forward(self, frames):
        return self.vits.dec(self.vits.flow(frames))


def state_of(graph):
    """Weights of a voice's ONNX graph by the names of the modules; those without names stand at their convolutions."""
    from onnx import numpy_helper

    arrays = {item.name: torch.from_numpy(numpy_helper.to_array(item).copy()) for item in graph.initializer}
    state = {name: value for name, value in arrays.items() if name.split(".")[0] in ("enc_p", "dp", "flow", "dec")}
    for node in graph.node:
        module = node.name.strip("/").rpartition("/")[0].replace("/", ".")
        if node.op_type in ("Conv", "ConvTranspose"):
            state[module + ".weight"] = arrays[node.input[1]]
        if node.name == "/enc_p/emb/Gather":
            state["enc_p.emb.weight"] = arrays[node.input[0]]
    state["dp.flows.0.shrink"] = arrays["/dp/flows.0/Exp_output_0"]
    return state


def piper(path):
    """The networks of a Piper voice of medium quality with one speaker."""
    import onnx

    state = state_of(onnx.load(path).graph)
    vits = Vits(phonemes=state["enc_p.emb.weight"].size(0)).eval()
    shapes = {name: tuple(value.shape) for name, value in vits.state_dict().items()}
    wrong = [name for name in {**shapes, **state} if shapes.get(name) != tuple(state[name].shape if name in state
                                                                               else ())]
    if wrong:
        raise SystemExit(f"{path} is no voice of Piper's medium quality with one speaker: {wrong[:5]}")
    vits.load_state_dict(state)
    return vits


def export(vits, folder, phonemes):
    """Both networks; of two lengths, what differs stays open in the graphs."""
    import pnnx_case

    def inputs(count):
        return [torch.randint(0, phonemes, (1, count)), 0.5 * torch.randn(1, 2, count)]

    torch.manual_seed(7)
    pnnx_case.convert(Phonemes(vits).eval(), inputs(19), str(folder), second=inputs(26), stem="phonemes")
    frames = [torch.randn(1, vits.latent, 11)], [torch.randn(1, vits.latent, 17)]
    pnnx_case.convert(Sound(vits).eval(), frames[0], str(folder), second=frames[1], stem="sound")


def write_voice(config, folder):
    """voice.txt: the rate, how much is drawn at random, and the numbers of phonemes by their characters."""
    inference = config["inference"]
    lines = [f"rate {config['audio']['sample_rate']}", f"noise {inference['noise_scale']}",
             f"time_noise {inference['noise_w']}"]
    for phoneme, (number, *_) in config["phoneme_id_map"].items():
        if len(phoneme) == 1:
            lines.append(f"phoneme {number} {phoneme}")
    (folder / "voice.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_config(path):
    return json.loads(path.read_text(encoding="utf-8"))
