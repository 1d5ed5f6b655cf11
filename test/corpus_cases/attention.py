# SPDX-License-Identifier: MIT
import torch
import torch.nn.functional as F
from torch import nn

from .kit import case, f32, some_true


class Attend(nn.Module):
    """Calls nn.MultiheadAttention with the inputs in the roles that `roles` gives them."""

    def __init__(self, roles, embed=12, heads=3, weights=False, per_head=False, **options):
        super().__init__()
        self.attention = nn.MultiheadAttention(embed, heads, **options)
        for parameter in self.attention.parameters():
            if parameter.dim() == 1:
                nn.init.uniform_(parameter, -0.3, 0.3)
        self.roles = roles
        self.weights = weights
        self.per_head = per_head

    def forward(self, *inputs):
        given = dict(zip(self.roles, inputs))
        query = given["query"]
        key = given.get("key", query)
        value = given.get("value", key)
        output, weights = self.attention(
            query,
            key,
            value,
            attn_mask=given.get("mask"),
            key_padding_mask=given.get("padding"),
            need_weights=self.weights,
            average_attn_weights=not self.per_head,
        )
        return (output, weights) if self.weights else output


@case(f32(2, 5, 12))
def attention_self():
    return Attend(["query"], batch_first=True)


@case(f32(5, 2, 12))
def attention_self_sequence_first():
    return Attend(["query"], bias=False)


@case(f32(5, 12))
def attention_self_unbatched():
    return Attend(["query"], weights=True)


@case(f32(2, 5, 12))
def attention_weights():
    return Attend(["query"], batch_first=True, weights=True)


@case(f32(2, 5, 12), unfaithful="the file lacks average_attn_weights; only the second output's rank tells")
def attention_weights_per_head():
    return Attend(["query"], batch_first=True, weights=True, per_head=True)


@case(f32(2, 3, 12), f32(2, 7, 12))
def attention_cross():
    return Attend(["query", "key"], batch_first=True)


@case(f32(2, 3, 12), f32(2, 7, 12), f32(2, 7, 12))
def attention_three_inputs():
    return Attend(["query", "key", "value"], batch_first=True, weights=True)


@case(f32(2, 3, 12), f32(2, 7, 5), f32(2, 7, 9))
def attention_other_widths():
    return Attend(["query", "key", "value"], batch_first=True, kdim=5, vdim=9)


@case(f32(2, 5, 12), f32(5, 5))
def attention_mask():
    return Attend(["query", "mask"], batch_first=True)


@case(f32(2, 4, 12), f32(2, 6, 12), f32(2, 6, 12), f32(6, 4, 6))
def attention_mask_per_head():
    return Attend(["query", "key", "value", "mask"], batch_first=True)


SCRAMBLED = "pnnx names the inputs wrongly; their dtypes and shapes tell which is which"


@case(f32(2, 5, 12), some_true(2, 5), unfaithful=SCRAMBLED)
def attention_key_padding():
    """True is masked. One key is always left."""
    return Attend(["query", "padding"], batch_first=True)


@case(f32(2, 3, 12), f32(2, 6, 12), some_true(3, 6), unfaithful=SCRAMBLED)
def attention_bool_mask():
    return Attend(["query", "key", "mask"], batch_first=True)


@case(f32(2, 5, 12))
def attention_bias_and_zero():
    return Attend(["query"], batch_first=True, add_bias_kv=True, add_zero_attn=True)


@case(f32(2, 3, 5, 8), f32(2, 3, 7, 8), f32(2, 3, 7, 6))
def sdpa_plain():
    def body(q, k, v):
        return F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, scale=0.9)

    return body


@case(f32(2, 3, 6, 8), f32(2, 3, 6, 8), f32(2, 3, 6, 8))
def sdpa_causal():
    def body(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    return body


@case(f32(1, 2, 4, 8), f32(1, 2, 7, 8), f32(1, 2, 7, 8), f32(4, 7), f32(1, 2, 4, 7))
def sdpa_masks():
    def body(q, k, v, wide, full):
        return (
            F.scaled_dot_product_attention(q, k, v, attn_mask=wide),
            F.scaled_dot_product_attention(q, k, v, attn_mask=full, scale=0.2),
            F.scaled_dot_product_attention(q, k, v, is_causal=True),
        )

    return body


@case(f32(2, 2, 5, 4), f32(2, 2, 5, 4), f32(2, 2, 5, 4), some_true(5, 5))
def sdpa_bool_mask():
    """True attends."""

    def body(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    return body


@case(f32(1, 6, 5, 4), f32(1, 2, 5, 4), f32(1, 2, 5, 4))
def sdpa_grouped():
    def body(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    return body


@case(f32(5, 4), f32(7, 4), f32(7, 3), f32(2, 5, 4), f32(2, 7, 4), f32(2, 7, 3))
def sdpa_ranks():
    def body(q, k, v, q3, k3, v3):
        return F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q3, k3, v3)

    return body


@case(f32(2, 6, 12))
def attention_written_out():
    """Projections, reshapes, products and a softmax: what a module without nn.MultiheadAttention traces to."""

    class Written(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(12, 36)
            self.out = nn.Linear(12, 12)
            self.register_buffer("mask", torch.full((6, 6), float("-inf")).triu(1))

        def forward(self, x):
            q, k, v = (part.reshape(2, 6, 3, 4).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
            scores = torch.matmul(q, k.transpose(-1, -2)) / 2.0 + self.mask
            mixed = torch.matmul(torch.softmax(scores, -1), v)
            return self.out(mixed.transpose(1, 2).reshape(2, 6, 12))

    return Written()
