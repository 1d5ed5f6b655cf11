// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cuda/byte_matrix.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/checked.h"
#include "core/cpu_limits.h"
#include "core/parallel.h"
#include "cuda/memory.h"
#include "layers/quantized_linear/cuda/device_matrix.h"

namespace oort::cuda {
namespace {

/// Most bytes that wait in host memory to be copied.
constexpr int64_t kRowsPieceBytes = int64_t{32} << 20;

/// Strips [first, first + count), and the scales of their rows.
void WriteStrips(std::span<const StoredMatrix> parts, bool gated, const ByteWeights& weights,
                 int64_t first, int64_t count, uint8_t* to, float* scales) {
  std::memset(to, 0, static_cast<size_t>(count * kStripRows * weights.row_bytes));
  ParallelFor(AvailableThreads(), count, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> scratch;
    for (int64_t strip = begin; strip < end; ++strip) {
      const std::vector<StripRow> rows = RowsOfStrip(parts, gated, first + strip);
      for (int r = 0; r < kStripRows; ++r) {
        const StripRow& row = rows[static_cast<size_t>(r)];
        const int64_t at = strip * kStripRows + r;
        scales[at] = row.part < 0 ? 0.0f
                                  : RoundWeights(weights.kind, parts[static_cast<size_t>(row.part)],
                                                 row.row, scratch, to + at * weights.row_bytes);
      }
    }
  });
}

}  // namespace

ByteMatrix::ByteMatrix(std::span<const StoredMatrix> parts, bool gated, ByteKind kind,
                       Device device) {
  constexpr int64_t kMost = int64_t{1} << 30;  // kernels count rows and columns in 32 bits
  const int64_t strips = StripsOf(parts, gated), columns = parts[0].columns;
  if (columns > kMost || strips > kMost / kStripRows) {
    throw Error(ErrorCode::kUnsupported, "a matrix of weights is too large for the GPU's kernels");
  }
  const int64_t row_bytes = (columns + kStepColumns - 1) / kStepColumns * kStepColumns;
  const int64_t strip_bytes = kStripRows * row_bytes;
  weights_.kind = kind;
  weights_.strips = static_cast<int>(strips);
  weights_.row_bytes = static_cast<int>(row_bytes);
  const auto count_of = [](int64_t count) { return static_cast<size_t>(count); };
  rows_ = AllocateDevice(CheckedMultiply(count_of(strips), count_of(strip_bytes)), device.index);
  std::vector<float> scales(count_of(strips * kStripRows));
  scales_ = AllocateDevice(scales.size() * sizeof(float), device.index);

  const int64_t piece_strips = std::clamp<int64_t>(kRowsPieceBytes / strip_bytes, 1, strips);
  const std::shared_ptr<Buffer> piece = AllocateHost(count_of(piece_strips * strip_bytes));
  for (int64_t first = 0; first < strips; first += piece_strips) {
    const int64_t count = std::min(piece_strips, strips - first);
    WriteStrips(parts, gated, weights_, first, count, reinterpret_cast<uint8_t*>(piece->data()),
                scales.data() + first * kStripRows);
    Upload(rows_->data() + first * strip_bytes, piece->data(), count_of(count * strip_bytes),
           device.index);
  }
  Upload(scales_->data(), scales.data(), scales_->size(), device.index);
  weights_.data = reinterpret_cast<const uint8_t*>(rows_->data());
  weights_.scales = reinterpret_cast<const float*>(scales_->data());
}

}  // namespace oort::cuda
