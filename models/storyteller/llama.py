# SPDX-License-Identifier: MIT
"""The network that train.py trains: a Llama in plain torch, whose parameters have the names of a Hugging Face
checkpoint."""
import torch
from torch import nn
from torch.nn import functional


def turn(x, cosines, sines):
    """Rotary embedding: the halves of each head are the two coordinates of its pairs."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden, self.head = config["hidden_size"], config["head_dim"]
        self.q_proj = nn.Linear(hidden, config["num_attention_heads"] * self.head, bias=False)
        self.k_proj = nn.Linear(hidden, config["num_key_value_heads"] * self.head, bias=False)
        self.v_proj = nn.Linear(hidden, config["num_key_value_heads"] * self.head, bias=False)
        self.o_proj = nn.Linear(config["num_attention_heads"] * self.head, hidden, bias=False)

    def forward(self, x, cosines, sines):
        q, k, v = (projection(x).unflatten(-1, (-1, self.head)).transpose(1, 2)
                   for projection in (self.q_proj, self.k_proj, self.v_proj))
        y = functional.scaled_dot_product_attention(turn(q, cosines, sines), turn(k, cosines, sines), v, is_causal=True,
                                                    enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden, middle = config["hidden_size"], config["intermediate_size"]
        self.gate_proj, self.up_proj = (nn.Linear(hidden, middle, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(middle, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = (
            nn.RMSNorm(config["hidden_size"], eps=config["rms_norm_eps"]) for _ in range(2))
        self.self_attn, self.mlp = Attention(config), Mlp(config)

    def forward(self, x, cosines, sines):
        x = x + self.self_attn(self.input_layernorm(x), cosines, sines)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.norm = nn.RMSNorm(config["hidden_size"], eps=config["rms_norm_eps"])


class Llama(nn.Module):
    """Logits of tokens; the head is the embedding."""

    def __init__(self, config):
        super().__init__()
        self.model = Decoder(config)
        head = config["head_dim"]
        rates = config["rope_theta"] ** (-torch.arange(0, head, 2, dtype=torch.float64) / head)
        angles = torch.outer(torch.arange(config["max_position_embeddings"], dtype=torch.float64), rates)
        self.register_buffer("cosines", angles.cos().float(), persistent=False)
        self.register_buffer("sines", angles.sin().float(), persistent=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=config["initializer_range"])

    def forward(self, ids):
        length = ids.shape[1]
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = layer(x, self.cosines[:length], self.sines[:length])
        return functional.linear(self.model.norm(x), self.model.embed_tokens.weight)
