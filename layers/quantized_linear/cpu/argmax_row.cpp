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

/// What is in `found` where the coarse products say nothing.
constexpr int32_t kOpen = -2;

/// Parts of a workspace for one row of x, in whole lines of the cache.
struct CoarseScratch {
  int64_t padded;  ///< rows of all panels
  size_t floats, energies, near;
  explicit CoarseScratch(const QuantizedMatrix& coarse)
      : padded(coarse.panels() * kPanelRows),
        floats(static_cast<size_t>(padded) * sizeof(float)),
        energies(AlignUp(
            static_cast<size_t>(coarse.columns() / coarse.layout().group) * sizeof(float), 64)),
        near(AlignUp(static_cast<size_t>(coarse.panels()) * sizeof(int32_t), 64)) {}
  /// Beside the products, which lie together.
  size_t others() const { return energies + near; }
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
  if (!TakesCoarse(rows)) return bytes;
  // The exact products overwrite the coarse ones, because they may be those of all panels.
  const CoarseScratch scratch(*coarse_);
  const size_t row = scratch.floats + scratch.others() + AloneBytes(threads);
  return std::max(bytes,
                  CheckedAdd(CheckedMultiply(static_cast<size_t>(rows), row),
                             multiplier_.Workspace(ProductWith(coarse_, nullptr, rows), threads)));
}

size_t ArgmaxRow::AloneBytes(int threads) const {
  return AlignUp(multiplier_.Workspace(ProductWith(matrix_, nullptr, 1), threads), 64);
}

float ArgmaxRow::ProductOf(const float* x, int32_t row, std::byte* workspace) const {
  const int32_t panel = row / static_cast<int32_t>(kPanelRows);
  float products[kPanelRows];
  multiplier_.RunPanels(ProductWith(matrix_, x, 1), {&panel, 1}, products, 1, workspace);
  return products[row % kPanelRows];
}

bool ArgmaxRow::TakesCoarse(int64_t rows) const {
  // The products of several rows lie one behind the other, with nothing behind the last panel.
  return coarse_ != nullptr && (rows == 1 || coarse_->rows() % kPanelRows == 0);
}

bool ArgmaxRow::MayTakeCoarse(const StoredMatrix& stored, Precision precision) {
  const GroupLayout groups = LayoutOf(stored);
  return precision != Precision::kF32 && groups.bits == 8 && groups.group % 32 == 0 &&
         !groups.has_minimum;
}

void ArgmaxRow::Find(const float* x, int64_t rows, int threads, std::byte* workspace,
                     int32_t* found, const ShareBests* share) const {
  if (!TakesCoarse(rows)) {
    if (share != nullptr) {
      std::vector<CoarseBest> none(static_cast<size_t>(rows));
      (*share)(none);
    }
    return FindInAll(x, rows, threads, workspace, found);
  }
  FindByCoarse(x, rows, threads, workspace, found, share);
  for (int64_t row = 0; row < rows; ++row) {
    if (found[row] != kOpen) continue;
    FindInAll(x + row * matrix_->columns(), 1, threads, workspace, found + row);
  }
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

void ArgmaxRow::FindByCoarse(const float* x, int64_t rows, int threads, std::byte* workspace,
                             int32_t* found, const ShareBests* share) const {
  const CoarseScratch scratch(*coarse_);
  const int64_t count = matrix_->rows();
  float* y = reinterpret_cast<float*>(workspace);
  std::byte* others = workspace + static_cast<size_t>(rows) * scratch.floats;
  const size_t step = scratch.others() + AloneBytes(threads);
  QuantizedProduct product = ProductWith(coarse_, x, rows);
  product.y = {&y, 1};
  multiplier_.Run(product, threads, others + static_cast<size_t>(rows) * step);
  if (rows == 1) std::fill(y + count, y + scratch.padded, kLowest);
  std::vector<CoarseBest> bests(static_cast<size_t>(rows));
  const auto find_best = [&](int64_t row) {
    bests[static_cast<size_t>(row)] = BestOf(x + row * matrix_->columns(), y + row * count,
                                             others + static_cast<size_t>(row) * step);
  };
  const auto find = [&](int64_t row, int with) {
    found[row] = FindAmongNear(x + row * matrix_->columns(), y + row * count,
                               bests[static_cast<size_t>(row)], with,
                               others + static_cast<size_t>(row) * step);
  };
  const auto for_rows = [&](const auto& body) {
    ParallelFor(rows == 1 ? 1 : threads, rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) body(row);
    });
  };
  for_rows(find_best);
  if (share != nullptr) (*share)(bests);
  if (rows == 1) return find(0, threads);
  for_rows([&](int64_t row) { find(row, 1); });
}

ArgmaxRow::CoarseBest ArgmaxRow::BestOf(const float* x, const float* y,
                                        std::byte* workspace) const {
  constexpr CoarseBest kNothing{std::numeric_limits<float>::quiet_NaN(), 0};
  float* energy = reinterpret_cast<float*>(workspace);
  const int group = coarse_->layout().group;
  if (!FillEnergies(x, coarse_->columns() / group, group, energy)) return kNothing;
  const int32_t best = ArgmaxOf(sampling_, y, matrix_->rows());
  if (best < 0 || !std::isfinite(y[best])) return kNothing;
  float spread[kPanelRows];
  SpreadOf(best / kPanelRows, energy, spread);
  const float best_spread = spread[best % kPanelRows];
  return std::isfinite(best_spread) ? CoarseBest{y[best], best_spread} : kNothing;
}

int32_t ArgmaxRow::FindAmongNear(const float* x, float* y, const CoarseBest& best, int threads,
                                 std::byte* workspace) const {
  if (std::isnan(best.product)) return kOpen;
  const CoarseScratch scratch(*coarse_);
  const int64_t count = matrix_->rows();
  int32_t* near = reinterpret_cast<int32_t*>(workspace + scratch.energies);
  std::byte* rest = workspace + scratch.others();
  const NearPanels panels{coarse_->panels(),
                          y,
                          squares_.data(),
                          SquaresStride(*coarse_),
                          coarse_->columns() / coarse_->layout().group,
                          reinterpret_cast<const float*>(workspace),
                          best.product,
                          best.spread,
                          kDeviations * kDeviations,
                          near};
  const int64_t open = KeepNear(panels, multiplier_.kernels().find_near(panels));

  // y is not needed any more.
  multiplier_.RunPanels(ProductWith(matrix_, x, 1), {near, static_cast<size_t>(open)}, y, threads,
                        rest);
  int32_t found = -1;
  float most = kLowest;
  for (int64_t i = 0; i < open * kPanelRows; ++i) {
    const int64_t row = int64_t{near[i / kPanelRows]} * kPanelRows + i % kPanelRows;
    if (row >= count || !(y[i] > most)) continue;
    most = y[i];
    found = static_cast<int32_t>(row);
  }
  return found;
}

}  // namespace oort
