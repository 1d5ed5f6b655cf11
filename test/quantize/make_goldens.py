#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ranges, grids and scales of weights by plain numpy, for ranges_test.cpp.

    python3 test/quantize/make_goldens.py        needs numpy; writes test/quantize/goldens

Everything is written down as simply as it can be: no prefix sums, no skipped bins, loops over candidates.
"""
import json
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent / "goldens"
BINS = 8192


def reach_of(samples):
    return 2.0 ** (np.floor(np.log2(max(np.abs(s).max() for s in samples))) + 1)


def histogram(values, reach):
    edges = np.linspace(-reach, reach, BINS + 1)
    return np.histogram(values[values != 0].astype(np.float64), edges)[0], edges


def moving_average(samples):
    low, high = float(samples[0].min()), float(samples[0].max())
    for sample in samples[1:]:
        low += 0.01 * (float(sample.min()) - low)
        high += 0.01 * (float(sample.max()) - high)
    return min(low, 0), max(high, 0)


def percentile(values, reach, percent):
    counts, edges = histogram(values, reach)
    pieces = [(edges[i], edges[i + 1], counts[i]) for i in range(BINS)]
    pieces.insert(BINS // 2, (0.0, 0.0, int((values == 0).sum())))

    def quantile(share):
        wanted, below = share * len(values), 0
        for begin, end, count in pieces:
            if count and below + count >= wanted:
                return begin + (end - begin) * (wanted - below) / count
            below += count

    cut = (100 - percent) / 200
    ends = np.clip([quantile(cut), quantile(1 - cut)], values.min(), values.max())
    return min(ends[0], 0), max(ends[1], 0)


def squared_error(values, reach):
    counts, edges = histogram(values, reach)
    centers = np.clip((edges[:-1] + edges[1:]) / 2, values.min(), values.max())
    low, high = min(float(values.min()), 0), max(float(values.max()), 0)

    def error(a, b):
        scale = (b * high - a * low) / 255
        zero = np.clip(np.rint(-a * low / scale), 0, 255)
        q = np.clip(np.rint(centers / scale) + zero, 0, 255)
        return float((counts * (centers - scale * (q - zero)) ** 2).sum())

    highs, lows = range(64 if high > 0 else 1), range(16 if low < 0 else 1)
    best = min((error(0.82**j, 0.95**i), i, j) for i in highs for j in lows)
    a, b, least = 0.82 ** best[2], 0.95 ** best[1], best[0]
    coarse_a, coarse_b = a, b
    for i in range(-4, 5):
        for j in range(-4, 5):
            fine_a, fine_b = min(1, coarse_a * 0.82 ** (j / 5)), min(1, coarse_b * 0.95 ** (i / 5))
            if (found := error(fine_a, fine_b)) < least:
                a, b, least = fine_a, fine_b, found
    return a * low, b * high


def kl(values, reach):
    one_sided = values.min() >= 0
    levels = 256 if one_sided else 128
    counts, _ = histogram(values, reach)
    # A negative value on an edge lies in the bin above it, and so in the magnitudes of that bin.
    magnitudes = counts[BINS // 2 :] + counts[: BINS // 2][::-1]
    bins = magnitudes.reshape(2048, 2).sum(1).astype(np.float64)
    width = reach / 2048
    best, threshold = np.inf, np.abs(values).max()
    last = int(np.flatnonzero(bins)[-1]) + 1
    for kept in range(last, levels - 1, -1):
        p = bins[:kept].copy()
        p[-1] += bins[kept:].sum()
        q = np.zeros(kept)
        for level in range(levels):
            begin, end = level * kept / levels, (level + 1) * kept / levels
            at = np.arange(int(begin), min(kept, int(np.ceil(end))))
            part = np.minimum(end, at + 1) - np.maximum(begin, at)
            full = bins[at] > 0
            if (part * full).sum() > 0:
                q[at] += full * part * (bins[at] * part).sum() / (part * full).sum()
        if q.sum() <= 0:
            continue
        p, q = p / p.sum(), q / q.sum()
        q = np.where(q > 0, q, 1e-7)
        divergence = float((p[p > 0] * np.log(p[p > 0] / q[p > 0])).sum())
        if divergence < best - 1e-12:
            best, threshold = divergence, min((kept + 0.5) * width, np.abs(values).max())
    return (0.0 if one_sided else -threshold), threshold


def grid(low, high):
    if low == high:
        return 1.0, 0
    scale = (high - low) / 255
    return float(np.float32(scale)), int(np.rint(-low / (high - low) * 255))


def weight_rows(weights, search):
    most = np.abs(weights).max(1)
    floor = np.float32(max(most.max() / np.float32(127) * np.float32(2.0**-20), 2.0**-100))
    scales = []
    for row, largest in zip(weights, most):
        candidates = [largest / np.float32(127)]
        if search:
            steps = (np.float32(1) - np.float32(0.01) * np.float32(k) for k in range(1, 51))
            candidates += [largest * step / np.float32(127) for step in steps]
        if largest == 0:
            scales.append(floor)
            continue
        errors = []
        for scale in candidates:
            q = np.clip(np.rint(row * (np.float32(1) / scale)), -127, 127)
            errors.append(((row.astype(np.float64) - (q * scale).astype(np.float64)) ** 2).sum())
        scales.append(max(candidates[int(np.argmin(errors))], floor))
    scales = np.array(scales, np.float32)
    q = np.clip(np.rint(weights * (np.float32(1) / scales)[:, None]), -127, 127)
    return scales, q.astype(np.int8)


def equal_factors(maxima, weight, depthwise):
    """By what each channel is divided in front of `weight`: (out, in, …), or (channels, 1, …)."""
    reach = np.ones(len(maxima)) if depthwise else np.abs(weight.astype(np.float64)).max((0, 2, 3))
    speaks = (maxima > 1e-6 * maxima.max()) & (reach > 1e-6 * reach.max())
    raw = np.where(speaks, maxima if depthwise else np.sqrt(maxima / np.where(speaks, reach, 1)), 1)
    factors = raw / np.exp(np.log(raw[speaks]).mean())
    return np.where(speaks, np.clip(factors, 1 / 64, 64), 1).astype(np.float32)


def adaptive_rounding(weights, scales, inputs):
    """Rounds each weight up or down so that outputs change least: one flip after another, until none helps."""
    x = inputs.astype(np.float64)
    h = x.T @ x / len(x)
    h += 0.01 * np.diag(h).mean() * np.eye(len(h))
    rows = []
    for row, scale in zip(weights.astype(np.float64), scales.astype(np.float64)):
        q = np.clip(np.rint(row / scale), -127, 127)
        error = q * scale - row
        slope = error @ h
        for _ in range(8):
            flips = 0
            for k in range(len(q)):
                other = q[k] - 1 if error[k] > 0 else q[k] + 1
                if abs(other) > 127 or abs(error[k]) >= scale:
                    continue
                step = (other - q[k]) * scale
                if 2 * step * slope[k] + step * step * h[k, k] < 0:
                    q[k], error[k], flips = other, error[k] + step, flips + 1
                    slope += step * h[k]
            if flips == 0:
                break
        rows.append(q.astype(int).tolist())
    return rows


def main():
    HERE.mkdir(exist_ok=True)
    random = np.random.default_rng(7)
    n = (8, 2000)
    cases = {
        "normal": random.normal(0.3, 1, n),
        "relu": np.maximum(random.normal(0, 2, n), 0),
        "relu6": np.clip(random.normal(2, 3, n), 0, 6),
        "tail": random.standard_t(3, n) * 0.05,
        "negative": -np.abs(random.normal(0, 0.01, n)),
        "lopsided": np.where(random.random(n) < 0.01, 40, 1) * random.normal(0, 1, n),
    }
    goldens = {}
    for name, samples in cases.items():
        samples = samples.astype(np.float32)
        np.save(HERE / f"{name}.npy", samples)
        values, reach = samples.reshape(-1), reach_of(samples)
        ranges = {
            "minmax": (min(float(values.min()), 0), max(float(values.max()), 0)),
            "moving-average": moving_average(samples),
            "percentile": percentile(values, reach, 99.9),
            "kl": kl(values, reach),
            "mse": squared_error(values, reach),
        }
        goldens[name] = {
            "reach": float(reach),
            "counts": {str(i): int(c) for i, c in enumerate(histogram(values, reach)[0]) if c > 20},
            "ranges": {method: [float(low), float(high)] for method, (low, high) in ranges.items()},
            "grids": {method: grid(*ends) for method, ends in ranges.items()},
        }
    weights = (random.standard_t(4, (6, 50)) * np.array([1, 0.1, 3, 0, 1e-9, 0.5])[:, None]).astype(np.float32)
    np.save(HERE / "weights.npy", weights)
    rows = {}
    for name, search in (("minmax", False), ("mse", True)):
        scales, q = weight_rows(weights, search)
        rows[name] = {"scales": [float(s) for s in scales], "values": q.reshape(-1).tolist()}
    filters = (random.standard_t(4, (8, 6, 3, 3)) * np.array([1, 0.1, 3, 0, 1, 1e-3])[:, None, None]).astype(np.float32)
    maxima = np.array([0.5, 7, 1, 2, 0, 300.0])
    np.save(HERE / "equalized.npy", filters)
    equal = {
        "maxima": maxima.tolist(),
        "factors": [float(f) for f in equal_factors(maxima, filters, False)],
        "depthwise": [float(f) for f in equal_factors(maxima, filters, True)],
    }
    mixed = random.standard_normal((40, 24)) @ random.standard_normal((24, 24)) + 1
    dense = random.standard_normal((5, 24)).astype(np.float32)
    np.save(HERE / "rounded_inputs.npy", mixed.astype(np.float32))
    np.save(HERE / "rounded_weights.npy", dense)
    scales, nearest = weight_rows(dense, False)
    rounded = {
        "scales": [float(s) for s in scales],
        "nearest": nearest.reshape(-1).tolist(),
        "values": sum(adaptive_rounding(dense, scales, mixed.astype(np.float32)), []),
    }
    text = json.dumps({"ranges": goldens, "weights": rows, "equalize": equal, "adaround": rounded}, indent=1)
    (HERE / "goldens.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
