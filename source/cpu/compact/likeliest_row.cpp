// SPDX-License-Identifier: MIT
#include "cpu/compact/likeliest_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/checked.h"

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
  explicit CoarseScratch(const CompactMatrix& coarse)
      : padded(coarse.panels() * kCompactRows),
        floats(static_cast<size_t>(padded) * sizeof(float)),
        energies(AlignUp(
            static_cast<size_t>(coarse.columns() / coarse.layout().group) * sizeof(float), 64)),
        near(AlignUp(static_cast<size_t>(coarse.panels()) * sizeof(int32_t), 64)) {}
  size_t bytes() const { return 2 * floats + energies + near; }
};

/// What a step of coarse weights in a group may do to a product, squared. Gives whether that is
/// finite.
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

}  // namespace

LikeliestRow::LikeliestRow(Isa isa, Precision precision,
                           std::shared_ptr<const CompactMatrix> matrix)
    : multiplier_(isa, precision), sampling_(SamplingKernelsFor(isa)), matrix_(std::move(matrix)) {}

void LikeliestRow::MakeCoarse(int threads) {
  const CompactLayout& layout = matrix_->layout();
  const bool takes =
      layout.type == CompactType::kInt8 && layout.group % 32 == 0 && !layout.has_minimum;
  if (!takes || !multiplier_.multiplies_bytes() || matrix_->bytes() / 2 > kMostCoarseBytes) return;
  coarse_ = CompactMatrix::Coarse(*matrix_, threads);
  coarse_->ReadInstead(*matrix_);
}

CompactProduct LikeliestRow::ProductWith(const std::shared_ptr<const CompactMatrix>& matrix,
                                         const float* x, int64_t rows) const {
  CompactProduct product;
  product.rows = rows;
  product.x = x;
  product.x_stride = matrix->columns();
  product.matrices = {&matrix, 1};
  product.biases = {&kNoBias, 1};
  return product;
}

size_t LikeliestRow::Workspace(int64_t rows, int threads) const {
  size_t bytes = CheckedMultiply<size_t>(
      CheckedMultiply(static_cast<size_t>(rows), static_cast<size_t>(matrix_->rows())),
      sizeof(float));
  bytes = CheckedAdd(AlignUp(bytes, 64),
                     multiplier_.Workspace(ProductWith(matrix_, nullptr, rows), threads));
  if (coarse_ == nullptr || rows != 1) return bytes;
  // The exact products take the place of the coarse ones, and may be those of all panels.
  const size_t multiply =
      std::max(multiplier_.Workspace(ProductWith(matrix_, nullptr, 1), threads),
               multiplier_.Workspace(ProductWith(coarse_, nullptr, 1), threads));
  return std::max(bytes, CoarseScratch(*coarse_).bytes() + multiply);
}

void LikeliestRow::Find(const float* x, int64_t rows, int threads, std::byte* workspace,
                        int32_t* found) const {
  if (rows == 1 && coarse_ != nullptr && FindByCoarse(x, threads, workspace, found)) return;
  FindInAll(x, rows, threads, workspace, found);
}

void LikeliestRow::FindInAll(const float* x, int64_t rows, int threads, std::byte* workspace,
                             int32_t* found) const {
  CompactProduct product = ProductWith(matrix_, x, rows);
  float* y = reinterpret_cast<float*>(workspace);
  const int64_t count = matrix_->rows();
  product.y = {&y, 1};
  const size_t bytes = AlignUp(static_cast<size_t>(rows * count) * sizeof(float), 64);
  multiplier_.Run(product, threads, workspace + bytes);
  for (int64_t row = 0; row < rows; ++row) {
    found[row] = LikeliestOf(sampling_, y + row * count, count);
  }
}

bool LikeliestRow::FindByCoarse(const float* x, int threads, std::byte* workspace,
                                int32_t* found) const {
  const CoarseScratch scratch(*coarse_);
  const int64_t count = matrix_->rows();
  float* y = reinterpret_cast<float*>(workspace);
  float* spread = reinterpret_cast<float*>(workspace + scratch.floats);
  float* energy = reinterpret_cast<float*>(workspace + 2 * scratch.floats);
  int32_t* near = reinterpret_cast<int32_t*>(workspace + 2 * scratch.floats + scratch.energies);
  std::byte* rest = workspace + scratch.bytes();

  const int group = coarse_->layout().group;
  if (!FillEnergies(x, coarse_->columns() / group, group, energy)) return false;
  CompactProduct product = ProductWith(coarse_, x, 1);
  product.y = {&y, 1};
  product.energy = energy;
  product.spread = spread;
  multiplier_.Run(product, threads, rest);
  std::fill(y + count, y + scratch.padded, kLowest);

  const int32_t best = LikeliestOf(sampling_, y, count);
  if (best < 0 || !std::isfinite(y[best]) || !std::isfinite(spread[best])) return false;
  NearPanels panels{coarse_->panels(), y, spread, y[best], spread[best], 0, near};
  panels.room = kDeviations * kDeviations;
  const int64_t open = multiplier_.kernels().find_near(panels);

  // y is not needed any more.
  multiplier_.RunPanels(ProductWith(matrix_, x, 1), {near, static_cast<size_t>(open)}, y, threads,
                        rest);
  *found = -1;
  float most = kLowest;
  for (int64_t i = 0; i < open * kCompactRows; ++i) {
    const int64_t row = int64_t{near[i / kCompactRows]} * kCompactRows + i % kCompactRows;
    if (row >= count || !(y[i] > most)) continue;
    most = y[i];
    *found = static_cast<int32_t>(row);
  }
  return true;
}

}  // namespace oort
