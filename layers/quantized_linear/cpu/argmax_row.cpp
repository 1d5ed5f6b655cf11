// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cpu/argmax_row.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/checked.h"
#include "core/parallel.h"

namespace oort {
namespace {

constexpr float kDeviations = 6;
constexpr size_t kMostCoarseBytes = size_t{32} << 20;
constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr const float* kNoBias = nullptr;

/// Parts of a workspace, in whole lines of the cache.
struct CoarseScratch {
  int64_t padded;  ///< rows of all panels
  size_t floats, energies, near;
  explicit CoarseScratch(const QuantizedMatrix& coarse)
      : padded(coarse.panels() * kPanelRows),
        floats(static_cast<size_t>(padded) * sizeof(float)),
        energies(AlignUp(
            static_cast<size_t>(coarse.columns() / coarse.layout().group) * sizeof(float), 64)),
        near(AlignUp(static_cast<size_t>(coarse.panels()) * sizeof(int32_t), 64)) {}
  size_t bytes() const { return floats + energies + near; }
};

/// The squared error that a step of coarse weights in a group may make in a product. Returns
/// whether it is finite.
bool FillEnergies(const float* x, int64_t groups, int group, float* energy) {
  float total = 0;
  for (int64_t g = 0; g < groups; ++g, x += group) {
    float sum = 0;
    for (int i = 0; i < group; ++i) sum += x[i] * x[i];
    energy[g] = sum / 12;
    total += energy[g];
  }
  return std::isfinite(total);
}

/// The number of panels, rounded up to whole vectors.
int64_t SquaresStride(const QuantizedMatrix& coarse) {
  return static_cast<int64_t>(AlignUp(static_cast<size_t>(coarse.panels()), 16));
}

/// Writes the square of the largest scale of each panel and group: (groups, stride).
std::vector<float> LargestSquares(const QuantizedMatrix& coarse) {
  const PanelLayout& layout = coarse.layout();
  const int64_t groups = coarse.columns() / layout.group, stride = SquaresStride(coarse);
  std::vector<float> squares(static_cast<size_t>(groups * stride), 0.0f);
  for (int64_t panel = 0; panel < coarse.panels(); ++panel) {
    for (int64_t g = 0; g < groups; ++g) {
      uint16_t scales[kPanelRows];
      std::memcpy(scales, coarse.panel(panel) + layout.group_at(g), sizeof(scales));
      float& most = squares[static_cast<size_t>(g * stride + panel)];
      for (const uint16_t half : scales) {
        const float scale = HalfToFloat(half);
        most = std::max(most, scale * scale);
      }
    }
  }
  return squares;
}

}  // namespace

ArgmaxRow::ArgmaxRow(Isa isa, Precision precision, std::shared_ptr<const QuantizedMatrix> matrix)
    : multiplier_(isa, precision), sampling_(SamplingKernelsFor(isa)), matrix_(std::move(matrix)) {}

void ArgmaxRow::MakeCoarse(int threads) {
  const PanelLayout& layout = matrix_->layout();
  const bool takes =
      layout.type == WeightType::kInt8 && layout.group % 32 == 0 && !layout.has_minimum;
  if (!takes || !multiplier_.multiplies_bytes() || matrix_->bytes() / 2 > kMostCoarseBytes) return;
  coarse_ = QuantizedMatrix::Coarse(*matrix_, threads);
  squares_ = LargestSquares(*coarse_);
}

QuantizedProduct ArgmaxRow::ProductWith(const std::shared_ptr<const QuantizedMatrix>& matrix,
                                        const float* x, int64_t rows) const {
  QuantizedProduct product;
  product.rows = rows;
  product.x = x;
  product.x_stride = matrix->columns();
  product.matrices = {&matrix, 1};
  product.biases = {&kNoBias, 1};
  product.apart = true;  // a token of a sequence each
  return product;
}

size_t ArgmaxRow::Workspace(int64_t rows, int threads) const {
  size_t bytes = CheckedMultiply<size_t>(
      CheckedMultiply(static_cast<size_t>(rows), static_cast<size_t>(matrix_->rows())),
      sizeof(float));
  bytes = CheckedAdd(AlignUp(bytes, 64),
                     multiplier_.Workspace(ProductWith(matrix_, nullptr, rows), threads));
  if (coarse_ == nullptr || rows != 1) return bytes;
  // The exact products overwrite the coarse ones, because they may be those of all panels.
  const size_t multiply =
      std::max(multiplier_.Workspace(ProductWith(matrix_, nullptr, 1), threads),
               multiplier_.Workspace(ProductWith(coarse_, nullptr, 1), threads));
  return std::max(bytes, CoarseScratch(*coarse_).bytes() + multiply);
}

void ArgmaxRow::Find(const float* x, int64_t rows, int threads, std::byte* workspace,
                     int32_t* found) const {
  if (rows == 1 && coarse_ != nullptr && FindByCoarse(x, threads, workspace, found)) return;
  FindInAll(x, rows, threads, workspace, found);
}

void ArgmaxRow::FindInAll(const float* x, int64_t rows, int threads, std::byte* workspace,
                          int32_t* found) const {
  QuantizedProduct product = ProductWith(matrix_, x, rows);
  float* y = reinterpret_cast<float*>(workspace);
  const int64_t count = matrix_->rows();
  product.y = {&y, 1};
  const size_t bytes = AlignUp(static_cast<size_t>(rows * count) * sizeof(float), 64);
  multiplier_.Run(product, threads, workspace + bytes);
  ParallelFor(threads, rows, GrainOf({static_cast<double>(count) * sizeof(float), 0}),
              [&](int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; ++row) {
                  found[row] = ArgmaxOf(sampling_, y + row * count, count);
                }
              });
}

void ArgmaxRow::SpreadOf(int64_t panel, const float* energy, float (&spread)[kPanelRows]) const {
  multiplier_.kernels().spread(
      {coarse_->layout(), coarse_->columns(), coarse_->panel(panel), energy, spread});
}

int64_t ArgmaxRow::KeepNear(const NearPanels& found, int64_t count) const {
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t panel = found.near[i];
    float spread[kPanelRows];
    SpreadOf(panel, found.energy, spread);
    const float* y = found.y + int64_t{panel} * kPanelRows;
    for (int row = 0; row < kPanelRows; ++row) {
      const float away = found.best - y[row];
      if (!(away * away <= found.room * (found.best_spread + spread[row]))) continue;
      found.near[kept++] = panel;
      break;
    }
  }
  return kept;
}

bool ArgmaxRow::FindByCoarse(const float* x, int threads, std::byte* workspace,
                             int32_t* found) const {
  const CoarseScratch scratch(*coarse_);
  const int64_t count = matrix_->rows();
  float* y = reinterpret_cast<float*>(workspace);
  float* energy = reinterpret_cast<float*>(workspace + scratch.floats);
  int32_t* near = reinterpret_cast<int32_t*>(workspace + scratch.floats + scratch.energies);
  std::byte* rest = workspace + scratch.bytes();

  const int group = coarse_->layout().group;
  const int64_t groups = coarse_->columns() / group;
  if (!FillEnergies(x, groups, group, energy)) return false;
  QuantizedProduct product = ProductWith(coarse_, x, 1);
  product.y = {&y, 1};
  multiplier_.Run(product, threads, rest);
  std::fill(y + count, y + scratch.padded, kLowest);

  const int32_t best = ArgmaxOf(sampling_, y, count);
  if (best < 0 || !std::isfinite(y[best])) return false;
  float spread[kPanelRows];
  SpreadOf(best / kPanelRows, energy, spread);
  const float best_spread = spread[best % kPanelRows];
  if (!std::isfinite(best_spread)) return false;
  const NearPanels panels{coarse_->panels(),
                          y,
                          squares_.data(),
                          SquaresStride(*coarse_),
                          groups,
                          energy,
                          y[best],
                          best_spread,
                          kDeviations * kDeviations,
                          near};
  const int64_t open = KeepNear(panels, multiplier_.kernels().find_near(panels));

  // y is not needed any more.
  multiplier_.RunPanels(ProductWith(matrix_, x, 1), {near, static_cast<size_t>(open)}, y, threads,
                        rest);
  *found = -1;
  float most = kLowest;
  for (int64_t i = 0; i < open * kPanelRows; ++i) {
    const int64_t row = int64_t{near[i / kPanelRows]} * kPanelRows + i % kPanelRows;
    if (row >= count || !(y[i] > most)) continue;
    most = y[i];
    *found = static_cast<int32_t>(row);
  }
  return true;
}

}  // namespace oort
