// SPDX-License-Identifier: MIT
#include "limits/limits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "oort/error.h"

namespace oort::limits {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr double kMostPositions = 1e12;

double D(int64_t value) { return static_cast<double>(value); }

double FeedForward(const ModelShape& shape, double intermediate) {
  const double matrices = shape.gated ? 3 : 2;
  const double biases = shape.mlp_bias ? (matrices - 1) * intermediate + D(shape.hidden) : 0;
  return matrices * D(shape.hidden) * intermediate + biases;
}

/// Layers with attention among the first `count` by their window; kInfinite: they see everything.
std::map<double, double> LayersByWindow(const ModelShape& shape, int64_t count) {
  std::map<double, double> layers;
  for (int64_t i = 0; i < count; ++i) {
    const size_t place = static_cast<size_t>(i);
    const bool limited = place < shape.windows.size() && shape.windows[place] > 0;
    layers[limited ? D(shape.windows[place]) : kInfinite] += 1;
  }
  // Where some have none, there are no windows.
  if (shape.state_layers > 0) layers[kInfinite] = D(shape.attention_layers());
  return layers;
}

std::map<double, double> LayersByWindow(const ModelShape& shape) {
  return LayersByWindow(shape, shape.layers);
}

/// Layers with keys and values of their own.
int64_t OwnLayers(const ModelShape& shape) {
  return shape.attention_layers() - shape.shared_layers;
}

/// Numbers that a position has in one layer with attention: keys and values.
double CacheOfLayer(const ModelShape& shape) { return 2 * D(shape.kv_heads) * D(shape.head_dim); }

constexpr double kStateBytes = 4;  // of a number

double Inner(const ModelShape& shape) { return D(shape.state_heads) * D(shape.state_head_dim); }
/// Of the convolution: x of each head, b and c of each group.
double Channels(const ModelShape& shape) {
  return Inner(shape) + 2 * D(shape.state_groups) * D(shape.state_size);
}

/// What a token multiplies and adds in the states of all layers: decay, what comes in, what comes
/// out, and before a delta rule what is there already.
double StateProducts(const ModelShape& shape) {
  return (shape.state_delta ? 4 : 3) * D(shape.state_layers) * Inner(shape) * D(shape.state_size);
}

/// Of a layer with a state: products in and out, the convolution, and what each head has.
double StateSpace(const ModelShape& shape) {
  const double hidden = D(shape.hidden), heads = D(shape.state_heads);
  const double inner = Inner(shape), channels = Channels(shape);
  const double biases = shape.state_bias ? inner + channels + heads + hidden : 0;
  const double products = hidden * (2 * inner + channels + heads) + channels * D(shape.state_taps);
  // Betas of each head, its rate and the bias of its step; or two of these, a share, and biases of
  // the convolution.
  if (shape.state_delta) return products + hidden * heads + 2 * heads;
  return products + biases + channels + 3 * heads;
}

/// a n² + b n + c.
struct Quadratic {
  double a = 0, b = 0, c = 0;
  double operator()(double n) const { return (a * n + b) * n + c; }
};

/// How many (position, earlier position) pairs of a prompt of n tokens meet in one layer, times
/// layers: exact for lengths n between two windows; of chunks, for whole ones.
Quadratic Pairs(const std::map<double, double>& layers, double from, bool chunked) {
  Quadratic sum;
  for (const auto& [window, count] : layers) {
    if (window > from) {  // all before: n (n + 1) / 2
      sum.a += 0.5 * count;
      sum.b += 0.5 * count;
    } else if (chunked) {
      sum.b += 0.5 * (window + 1) * count;
    } else {  // `window` each, but fewer at the beginning
      sum.b += window * count;
      sum.c += (window * (window + 1) / 2 - window * window) * count;
    }
  }
  return sum;
}

/// Positions that a sequence of n tokens keeps, times layers.
Quadratic Kept(const std::map<double, double>& layers, double from) {
  Quadratic sum;
  for (const auto& [window, count] : layers) {
    (window > from ? sum.b : sum.c) += window > from ? count : window * count;
  }
  return sum;
}

/// Experts that `tokens` of them touch, if each picks its own at random.
double TouchedShare(const ModelShape& shape, double tokens) {
  const double missed = 1 - D(shape.experts_used) / D(shape.experts);
  return 1 - std::pow(missed, tokens);
}

/// Weights that a step of so many tokens reads.
double WeightsRead(const ModelShape& shape, const ParameterCounts& counts, double tokens) {
  if (shape.experts == 0) return counts.active();
  const double expert =
      FeedForward(shape, D(shape.expert_intermediate)) * D(shape.layers - shape.dense_layers);
  const double always = counts.feed_forward_active - expert * D(shape.experts_used);
  return counts.attention_active + counts.router + counts.head + always +
         expert * D(shape.experts) * TouchedShare(shape, tokens);
}

/// What a token multiplies with weights of the layers, in products of 16 bits that take as long.
double LayerProducts(const ModelShape& shape, const ParameterCounts& counts, BitWidths precision,
                     const Machine& machine) {
  if (!precision.bytes) return counts.layers_active();
  // Experts and what chooses them keep 16 bits.
  const double experts = counts.router + FeedForward(shape, D(shape.expert_intermediate)) *
                                             D(shape.experts_used) *
                                             D(shape.layers - shape.dense_layers);
  const double kept = shape.experts > 0 ? experts : 0;
  return kept + (counts.layers_active() - kept) / machine.byte_rate;
}

/// Seconds of reading and of computing for prompts longer than `from` up to the next window.
struct PrefillCosts {
  Quadratic read, compute;
};

PrefillCosts CostsFrom(const ModelShape& shape, BitWidths precision, const Machine& machine,
                       Head head, CacheReads reads, double from, double experts_for) {
  const ParameterCounts counts = CountParameters(shape);
  const std::map<double, double> layers = LayersByWindow(shape);
  const Quadratic pairs = Pairs(layers, from, shape.chunked_windows);
  const Quadratic loaded = reads == CacheReads::kOnce ? Kept(layers, from) : pairs;
  const double groups = D(shape.heads) / D(shape.kv_heads), cache = CacheOfLayer(shape);
  PrefillCosts costs;
  const double read = cache * precision.cache_bits / 8 / machine.bandwidth;
  costs.read = {loaded.a * read, loaded.b * read,
                loaded.c * read + WeightsRead(shape, counts, experts_for) * precision.weight_bits /
                                      8 / machine.bandwidth};
  const double pair = cache * groups * 2 / machine.flops;
  const double all = head == Head::kAll ? counts.head : 0,
               once = head == Head::kOnce ? counts.head : 0;
  costs.read.c += 2 * StateOf(shape) * kStateBytes / machine.bandwidth;
  const double token =
      LayerProducts(shape, counts, precision, machine) + all + StateProducts(shape);
  costs.compute = {pairs.a * pair, pairs.b * pair + token * 2 / machine.flops,
                   pairs.c * pair + once * 2 / machine.flops};
  return costs;
}

/// Where a quadratic is zero between two places, ascending.
std::vector<double> Zeros(const Quadratic& q, double from, double to) {
  std::vector<double> zeros;
  if (q.a == 0) {
    if (q.b != 0) zeros.push_back(-q.c / q.b);
  } else {
    const double inside = q.b * q.b - 4 * q.a * q.c;
    if (inside >= 0) {
      // The form without a difference of near numbers.
      const double sum = -0.5 * (q.b + std::copysign(std::sqrt(inside), q.b));
      zeros = {sum / q.a, sum == 0 ? 0 : q.c / sum};
    }
  }
  std::sort(zeros.begin(), zeros.end());
  std::erase_if(zeros, [&](double zero) { return !(zero > from && zero <= to); });
  return zeros;
}

}  // namespace

ParameterCounts CountParameters(const ModelShape& shape) {
  ParameterCounts counts;
  const double hidden = D(shape.hidden), layers = D(shape.layers);
  const double query = D(shape.heads) * D(shape.head_dim),
               key = D(shape.kv_heads) * D(shape.head_dim);
  const double attention = hidden * (2 * query + 2 * key) + (shape.qkv_bias ? query + 2 * key : 0) +
                           (shape.output_bias ? hidden : 0) +
                           (shape.attention_gate ? hidden * query : 0);
  // Layers that share keys and values project queries alone.
  const double shared = D(shape.shared_layers) * 2 * key * (hidden + (shape.qkv_bias ? 1 : 0));
  const double states = D(shape.state_layers);
  counts.attention = counts.attention_active =
      D(shape.attention_layers()) * attention - shared + states * StateSpace(shape);
  if (shape.experts == 0) {
    counts.feed_forward = counts.feed_forward_active =
        (shape.state_alone ? layers - states : layers) * FeedForward(shape, D(shape.intermediate));
  } else {
    const double sparse = D(shape.layers - shape.dense_layers);
    const double expert = FeedForward(shape, D(shape.expert_intermediate));
    const double always =
        D(shape.dense_layers) * FeedForward(shape, D(shape.intermediate)) +
        (shape.shared_intermediate > 0 ? sparse * FeedForward(shape, D(shape.shared_intermediate))
                                       : 0);
    counts.feed_forward = always + sparse * expert * D(shape.experts);
    counts.feed_forward_active = always + sparse * expert * D(shape.experts_used);
    counts.router = sparse * hidden * (D(shape.experts) + (shape.shared_gate ? 1 : 0));
  }
  const double state_norm = shape.state_delta ? D(shape.state_head_dim) : Inner(shape);
  counts.norms = layers * D(shape.norms) * D(shape.norm_width) +
                 D(shape.attention_layers()) * D(shape.query_key_norm) + D(shape.norm_width) +
                 (shape.state_norm ? states * state_norm : 0);
  counts.norms += D(shape.stream_norms);
  counts.feed_forward += D(shape.stream_products);
  counts.feed_forward_active += D(shape.stream_products);
  counts.embedding = (D(shape.vocabulary) + D(shape.positions)) * hidden + D(shape.stream_table);
  counts.head = D(shape.vocabulary) * hidden;
  counts.tied = shape.tied_head;
  return counts;
}

double StateOf(const ModelShape& shape) {
  if (shape.state_size == 0) return 0;
  return D(shape.state_layers) *
         (Inner(shape) * D(shape.state_size) + (D(shape.state_taps) - 1) * Channels(shape));
}

double CacheOfPosition(const ModelShape& shape) {
  return D(OwnLayers(shape)) * CacheOfLayer(shape);
}

namespace {

double CacheOfLayers(const ModelShape& shape, int64_t count, double length) {
  double layers = 0;
  for (const auto& [window, number] : LayersByWindow(shape, count))
    layers += number * std::min(window, length);
  return layers * CacheOfLayer(shape);
}

}  // namespace

double CacheOf(const ModelShape& shape, double length) {
  return CacheOfLayers(shape, OwnLayers(shape), length);
}

std::span<const Machine> KnownMachines() {
  // Data sheets: dense 16-bit tensor rates with f32 sums; CPUs with AMX or BFMMLA at all-core
  // clocks.
  static const std::vector<Machine> machines = {
      {"a100", "NVIDIA A100 80 GB", 2039e9, 312e12, 80 * kGib, 0, 2},
      {"h100", "NVIDIA H100 SXM 80 GB", 3350e9, 989.4e12, 80 * kGib, 0, 2},
      {"h200", "NVIDIA H200 141 GB", 4800e9, 989.4e12, 141e9, 0, 2},
      {"4090", "NVIDIA RTX 4090 24 GB", 1008e9, 165.2e12, 24 * kGib, 0, 2},
      {"xeon", "Intel Xeon 8480+, 56 cores with AMX, 8 x DDR5-4800", 307.2e9, 229e12, 256 * kGib},
      {"neoverse-v1", "Graviton3, 64 Neoverse V1, 8 x DDR5-4800", 307.2e9, 21.3e12, 128 * kGib},
      {"neoverse-v2", "Graviton4, 96 Neoverse V2, 12 x DDR5-5600", 537.6e9, 34.4e12, 192 * kGib},
  };
  return machines;
}

const Machine& FindMachine(std::string_view name) {
  std::string names;
  for (const Machine& machine : KnownMachines()) {
    if (machine.name == name) return machine;
    names += (names.empty() ? "" : ", ") + machine.name;
  }
  throw Error(ErrorCode::kNotFound,
              "no machine '" + std::string(name) + "' is known; there are " + names);
}

TimeLimit PrefillLimit(const ModelShape& shape, BitWidths precision, const Machine& machine,
                       double length, Head head, CacheReads reads) {
  double from = 0;
  for (const auto& [window, count] : LayersByWindow(shape)) {
    if (window < length) from = window;
  }
  const PrefillCosts costs = CostsFrom(shape, precision, machine, head, reads, from, length);
  return {costs.read(length), costs.compute(length)};
}

std::vector<double> PrefillTurns(const ModelShape& shape, BitWidths precision,
                                 const Machine& machine, Head head, CacheReads reads) {
  std::vector<double> turns;
  double from = 0;
  std::map<double, double> layers = LayersByWindow(shape);
  layers.try_emplace(kInfinite, 0);
  for (const auto& [window, count] : layers) {
    const double to = std::min(window, kMostPositions);
    // A prompt long enough to turn touches nearly all experts.
    const PrefillCosts costs = CostsFrom(shape, precision, machine, head, reads, from, 1e6);
    const Quadratic difference{costs.read.a - costs.compute.a, costs.read.b - costs.compute.b,
                               costs.read.c - costs.compute.c};
    for (const double zero : Zeros(difference, from, to)) turns.push_back(zero);
    from = window;
  }
  return turns;
}

namespace {

TimeLimit DecodeWith(const ModelShape& shape, double weight_bytes, BitWidths precision,
                     const Machine& machine, double position, double batch) {
  // Layers that share keys and values read them, too.
  const double cache = CacheOfLayers(shape, shape.layers, position),
               groups = D(shape.heads) / D(shape.kv_heads);
  const double read = cache * precision.cache_bits / 8 + 2 * StateOf(shape) * kStateBytes;
  const ParameterCounts counts = CountParameters(shape);
  const double products = LayerProducts(shape, counts, precision, machine) + counts.head +
                          cache * groups + StateProducts(shape);
  return {(weight_bytes + batch * read) / machine.bandwidth, batch * products * 2 / machine.flops};
}

}  // namespace

TimeLimit DecodeLimit(const ModelShape& shape, BitWidths precision, const Machine& machine,
                      double position, double batch) {
  const double weights = WeightsRead(shape, CountParameters(shape), batch);
  return DecodeWith(shape, weights * precision.weight_bits / 8, precision, machine, position,
                    batch);
}

TimeLimit DecodeLimitOfBytes(const ModelShape& shape, double weight_bytes, double cache_bits,
                             const Machine& machine, double position) {
  return DecodeWith(shape, weight_bytes, {.cache_bits = cache_bits}, machine, position, 1);
}

double PositionsPerMillisecond(const ModelShape& shape, BitWidths precision,
                               const Machine& machine) {
  if (CacheOfPosition(shape) == 0) return kInfinite;
  return machine.bandwidth / 1000 / (CacheOfPosition(shape) * precision.cache_bits / 8);
}

double LongestContext(const ModelShape& shape, BitWidths precision, double memory,
                      bool with_embedding) {
  const ParameterCounts counts = CountParameters(shape);
  const double weights = with_embedding ? counts.stored() : counts.layers() + counts.head;
  const double room = memory - weights * precision.weight_bits / 8 - StateOf(shape) * kStateBytes;
  if (room < 0) return -1;
  const double numbers = room / (precision.cache_bits / 8);
  if (CacheOf(shape, kMostPositions) <= numbers) return kInfinite;
  double low = 0, high = kMostPositions;
  while (high - low > 1) {
    const double middle = std::floor((low + high) / 2);
    (CacheOf(shape, middle) <= numbers ? low : high) = middle;
  }
  return low;
}

double LargestBatch(const ModelShape& shape, BitWidths precision, double memory, double length) {
  const double room = memory - CountParameters(shape).stored() * precision.weight_bits / 8;
  if (room < 0) return -1;
  return std::floor(
      room / (CacheOf(shape, length) * precision.cache_bits / 8 + StateOf(shape) * kStateBytes));
}

double BalancedBatch(const ModelShape& shape, BitWidths precision, const Machine& machine,
                     double position) {
  const auto bound = [&](double batch) {
    return DecodeLimit(shape, precision, machine, position, batch).compute_bound();
  };
  double high = 1;
  while (!bound(high)) {
    high *= 2;
    if (high > 1e9) return kInfinite;
  }
  double low = std::floor(high / 2);
  while (high - low > 1) {
    const double middle = std::floor((low + high) / 2);
    (bound(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace oort::limits
