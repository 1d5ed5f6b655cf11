#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes networks that PT2E quantized readable for pnnx, which does not know the operators of quantized_decomposed.

    import pt2e                                            # this file, from tools
    module = convert_pt2e(prepared)
    torch.jit.trace(pt2e.fake_quantized(module), example).save("model.pt")     # then: pnnx model.pt inputshape=[…]

Each pair of quantize_per_tensor and dequantize_per_tensor becomes torch.fake_quantize_per_tensor_affine, which computes
the same numbers. Weights become floats with their rounding in them; Oort finds the integers again.
"""
import torch


def _constant(module, node):
    value = module
    for part in node.target.split("."):
        value = getattr(value, part)
    return value.detach()


def _dequantized(module, node):
    """The numbers that a node of dequantize_per_channel or _per_tensor makes of constant bytes."""
    weight, scale, zero = node.args[:3]
    weight = _constant(module, weight).float()
    if not isinstance(scale, torch.fx.Node):
        return (weight - zero) * scale
    shape = [1] * weight.dim()
    if node.target is torch.ops.quantized_decomposed.dequantize_per_channel.default:
        shape[node.args[3]] = -1
    return (weight - _constant(module, zero).float().view(shape)) * _constant(module, scale).float().view(shape)


def fake_quantized(module):
    """Changes what convert_pt2e gave, and returns it."""
    ops = torch.ops.quantized_decomposed
    graph = module.graph
    for node in list(graph.nodes):
        if node.target not in (ops.dequantize_per_tensor.default, ops.dequantize_per_channel.default):
            continue
        source = node.args[0]
        with graph.inserting_after(node):
            if source.op == "get_attr":
                name = f"_dequantized_{node.name}"
                module.register_buffer(name, _dequantized(module, node))
                new = graph.get_attr(name)
            elif source.target is ops.quantize_per_tensor.default:
                new = graph.call_function(torch.fake_quantize_per_tensor_affine, tuple(source.args[:5]))
            else:
                raise ValueError(f"{node.name}: expected a constant or quantize_per_tensor in front of it, "
                                 f"got {source.target}")
        node.replace_all_uses_with(new)
    graph.eliminate_dead_code()
    module.recompile()
    return module
