// SPDX-License-Identifier: MIT
// Weights on a GPU, packed once for the kernels.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "layers/quantized_linear/cuda/device_weights.h"
#include "layers/quantized_linear/quantized_linear_spec.h"
#include "oort/device.h"
#include "weights/weight_format.h"

namespace oort::cuda {

/// One or more matrices of the same number of columns below each other, for products of one input.
/// Quantized weights whose groups are whole chunks keep their numbers; f32, and groups of 16,
/// become f16. Thread contract: immutable.
class DeviceMatrix {
 public:
  /// Whether the parts can be one matrix: formats that read alike.
  static bool Alike(std::span<const StoredMatrix> parts);
  /// Parts begin at whole strips. `gated`, of pairs of parts of one size: every strip has eight
  /// rows of the first and eight of the second. Throws kOutOfMemory.
  DeviceMatrix(std::span<const StoredMatrix> parts, bool gated, Device device);
  /// The one for a single stored matrix if it is in use somewhere (an embedding that is the head,
  /// too).
  static std::shared_ptr<const DeviceMatrix> Shared(const StoredMatrix& part, Device device);

  const DeviceWeights& weights() const { return weights_; }
  int64_t columns() const { return columns_; }
  size_t bytes() const { return buffer_->size(); }

 private:
  int64_t StripBytes() const;
  void Upload(std::span<const StoredMatrix> parts, bool gated);
  /// Strips [first, first + count) as the device has them; a bound of their packed weights.
  float WriteStrips(std::span<const StoredMatrix> parts, bool gated, int64_t first, int64_t count,
                    std::byte* to) const;

  int64_t columns_;
  Device device_;
  DeviceWeights weights_;
  std::shared_ptr<Buffer> buffer_;
};

/// The rows of the parts that make up a strip: fills `rows` (kStripRows) with (part, row) pairs,
/// part -1 where there is none.
struct StripRow {
  int part = -1;
  int64_t row = 0;
};
std::vector<StripRow> RowsOfStrip(std::span<const StoredMatrix> parts, bool gated, int64_t strip);
int64_t StripsOf(std::span<const StoredMatrix> parts, bool gated);

/// Biases of the parts, one for each row as they are packed; undefined where no part has any.
Tensor PackBiases(std::span<const StoredMatrix> parts, bool gated, std::span<const Tensor> biases,
                  Device device);
/// Of parts whose rows are one group each, their scales likewise.
Tensor PackScales(std::span<const StoredMatrix> parts, bool gated, Device device);
/// What comes behind the products. Throws kUnsupported where kernels have no such end.
Activation ActivationBehind(const QuantizedLinearSpec& spec, bool has_addend);

}  // namespace oort::cuda
