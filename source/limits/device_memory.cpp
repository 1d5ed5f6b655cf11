// SPDX-License-Identifier: MIT
#include "limits/device_memory.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "layers/experts/cuda/mixture_scratch.h"
#include "layers/quantized_linear/cuda/device_weights.h"
#include "layers/quantized_linear/cuda/packed_gemm.h"
#include "limits/limits.h"

namespace oort::limits {
namespace {

constexpr double kNumber = 4;          // bytes of an activation
constexpr double kGemvRows = 16;       // steps of more rows have scratch
constexpr int64_t kWholeRow = 0;       // a group: rows of bytes with one scale
constexpr int kMultiprocessors = 132;  // of Hopper: they say in how many parts sums come
constexpr double kTokenOfTable = 16;   // where a token of a batch stands
constexpr double kBlockOfTable = 4;    // a block in the list of one of the sequences of a step

double Up(double value, double unit) { return std::ceil(value / unit) * unit; }

/// Matrices of `rows` each, below each other, as layers/quantized_linear/cuda/device_matrix.h packs
/// them.
struct Packed {
  double rows = 0, columns = 0;
  int bits = 16;
  int64_t group = 32;
  bool gated = false;

  Packed(std::initializer_list<double> parts, double width, int wanted, int64_t shared,
         bool is_gated = false)
      : columns(Up(width, cuda::kStepColumns)), bits(wanted), group(shared), gated(is_gated) {
    for (const double part : parts) {
      rows += gated ? Up(part, cuda::kStripRows / 2) : Up(part, cuda::kStripRows);
    }
    rows = Up(rows, cuda::kStripRows);
    if (group == kWholeRow) return;
    while (group > 1 && static_cast<int64_t>(width) % group != 0) group /= 2;
    if (group % cuda::kChunkColumns != 0) bits = 16;
  }
  double unpacked() const { return rows * columns * 2; }
  double bytes() const {
    // As int8 has it: the scale stands beside each step. fp8 has it once.
    if (group == kWholeRow) return rows * (columns + columns / cuda::kStepColumns * kNumber);
    if (bits == 16) return unpacked();
    cuda::DeviceWeights weights;
    weights.format = bits == 8 ? cuda::DeviceFormat::kInt8 : cuda::DeviceFormat::kInt4;
    weights.chunk_scales = group % cuda::kStepColumns != 0;
    return rows / cuda::kStripRows * (columns / cuda::kStepColumns) * cuda::RecordBytes(weights);
  }
  /// Scratch of a product with so many rows.
  double Scratch(double count, bool exact) const {
    if (group == kWholeRow) {
      return rows * columns + count * (columns + kNumber + rows * kNumber);
    }
    if (count <= kGemvRows) return 0;
    if (exact) {  // numbers are two of 16 bits each
      return count * columns * 4 + (bits == 16 ? 0 : 2 * unpacked()) +
             (gated ? count * rows * kNumber : 0);
    }
    const bool packed = bits != 16 && count <= cuda::kMostPackedGemmRows;
    const int splits =
        packed ? cuda::PackedGemmSplits(static_cast<int64_t>(rows) / cuda::kStripRows,
                                        static_cast<int64_t>(columns) / cuda::kStepColumns,
                                        static_cast<int64_t>(count), kMultiprocessors)
               : 1;
    return count * columns * 2 + (bits == 16 || packed ? 0 : unpacked()) +
           (gated || splits > 1 ? splits * count * rows * kNumber : 0);
  }
};

double Real(int64_t value) { return static_cast<double>(value); }

/// The matrices of a model, as they are packed.
struct PackedModel {
  double query, key;  ///< widths
  Packed qkv, output, up, down, table, positions;
  Packed router, expert_up, expert_down, shared_up, shared_down;  ///< of mixtures
  double streams;  ///< bytes of what several residual streams have, without padding

  PackedModel(const ModelShape& shape, const DeviceWeightBits& weights)
      : PackedModel(shape, weights, OfLayers(weights)) {}

  /// `layers`: of all products but tables and those of mixtures.
  PackedModel(const ModelShape& shape, const DeviceWeightBits& weights,
              const DeviceWeightBits& layers)
      : query(Real(shape.heads * shape.head_dim)),
        key(Real(shape.kv_heads * shape.head_dim)),
        qkv({query, key, key}, Real(shape.hidden), layers.bits, layers.group),
        output({Real(shape.hidden)}, query, layers.bits, layers.group),
        up(shape.gated
               ? Packed({Real(shape.intermediate), Real(shape.intermediate)}, Real(shape.hidden),
                        layers.bits, layers.group, true)
               : Packed({Real(shape.intermediate)}, Real(shape.hidden), layers.bits, layers.group)),
        down({Real(shape.hidden)}, Real(shape.intermediate), layers.bits, layers.group),
        table({Real(shape.vocabulary)}, Real(shape.hidden), TableBits(weights), weights.group),
        positions({Real(shape.positions)}, Real(shape.hidden), 16, weights.group),
        router({Real(shape.experts)}, Real(shape.hidden), weights.bits, weights.group),
        expert_up(Gated(shape.expert_intermediate, shape, weights)),
        expert_down({Real(shape.hidden)}, Real(shape.expert_intermediate), weights.bits,
                    weights.group),
        shared_up(Gated(shape.shared_intermediate, shape, layers)),
        shared_down({Real(shape.hidden)}, Real(shape.shared_intermediate), layers.bits,
                    layers.group),
        streams(Real(shape.stream_products + shape.stream_table) * Real(weights.bits) / 8) {}

  double Bytes(const ModelShape& shape) const {
    const double biases = (shape.qkv_bias ? qkv.rows : 0) + (shape.output_bias ? output.rows : 0) +
                          (shape.mlp_bias ? up.rows + down.rows : 0);
    const double sparse = shape.experts > 0 ? Real(shape.layers - shape.dense_layers) : 0;
    const double mixture = router.bytes() + shared_up.bytes() + shared_down.bytes() +
                           Real(shape.experts) * (expert_up.bytes() + expert_down.bytes());
    return Real(shape.layers) * (qkv.bytes() + output.bytes() + biases * kNumber) +
           (Real(shape.layers) - sparse) * (up.bytes() + down.bytes()) + sparse * mixture +
           table.bytes() * (shape.tied_head ? 1 : 2) + positions.bytes() + streams +
           CountParameters(shape).norms * kNumber;
  }

 private:
  static DeviceWeightBits OfLayers(DeviceWeightBits weights) {
    if (!weights.bytes || weights.bits <= 4) return weights;
    weights.bits = 8;
    weights.group = kWholeRow;
    return weights;
  }
  static Packed Gated(int64_t intermediate, const ModelShape& shape,
                      const DeviceWeightBits& weights) {
    const double rows = Real(intermediate);
    return {{rows, rows}, Real(shape.hidden), weights.bits, weights.group, true};
  }
  static int TableBits(const DeviceWeightBits& weights) {
    if (weights.table_bits > 0) return weights.table_bits;
    return weights.bits == 4 ? 8 : weights.bits;
  }
};

/// Numbers that a mixture has for each of `rows` tokens: what it reads, writes and scratches.
double MixtureOfRow(const ModelShape& shape, const DeviceRunShape& run) {
  if (shape.experts == 0) return 0;
  const cuda::MixtureShape mixture{shape.hidden, shape.expert_intermediate, shape.experts,
                                   shape.experts_used,
                                   run.exact ? cuda::kExactPlanes : cuda::kFastPlanes};
  const auto rows = static_cast<int64_t>(run.rows);
  const cuda::MixtureScratch scratch(mixture, std::min(rows, MixtureTokensAtOnce(mixture)));
  return 2 * Real(shape.hidden) + Real(shape.experts) +
         static_cast<double>(scratch.total) / run.rows / kNumber;
}

}  // namespace

double PredictDeviceWeights(const ModelShape& shape, const DeviceWeightBits& weights) {
  return PackedModel(shape, weights).Bytes(shape);
}

DeviceMemory PredictDeviceMemory(const ModelShape& shape, const DeviceWeightBits& weights,
                                 const DeviceRunShape& run) {
  const PackedModel model(shape, weights);
  DeviceMemory memory;
  memory.weights = model.Bytes(shape);
  const double scale = run.cache_bits == 8 ? 4 / Real(shape.head_dim) : 0;  // of bytes
  const double lists = kBlockOfTable * (run.exact ? 16 : 512) / 16;
  memory.cache = CacheOfPosition(shape) * (run.cache_bits / 8 + scale) * Up(run.tokens, 16) +
                 (kTokenOfTable + lists) * run.tokens;
  // The residual stream is there throughout; beside it what an operator reads, writes and
  // scratches.
  const double hidden = Real(shape.hidden), wide = Real(shape.intermediate), rows = run.rows;
  const auto scratch = [&](const Packed& matrix) {
    return matrix.Scratch(rows, run.exact) / rows / kNumber;
  };
  const double most = std::max({
      model.query + 2 * model.key + scratch(model.qkv),
      2 * model.query + 2 * model.key + model.query,
      model.query + hidden + scratch(model.output),
      wide + scratch(model.up),
      wide + hidden + scratch(model.down),
      MixtureOfRow(shape, run),
  });
  const double few = std::min(rows, kGemvRows);
  memory.activations = std::max(rows * (hidden + most), few * Real(shape.vocabulary)) * kNumber +
                       few * Real(shape.vocabulary) * kNumber;  // and logits that stay there
  return memory;
}

}  // namespace oort::limits
