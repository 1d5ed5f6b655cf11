// SPDX-License-Identifier: MIT
#include "layers/linear/blas_product.h"

#include <limits>

#include "cpu/lapack.h"

namespace oort {
namespace {

// One call of BLAS computes so much of C: enough to hide that it copies A and B.
constexpr int64_t kTileRows = 128, kTileColumns = 512;
constexpr double kLeastMultiplications = 32 * 32 * 32;

int64_t BlasTiles(int64_t extent, int64_t tile) { return (extent + tile - 1) / tile; }

}  // namespace

template <typename T>
bool BlasProduct<T>::IsWorthIt() const {
  const double multiplications =
      static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  if (multiplications < kLeastMultiplications) return false;
  const int64_t most = std::max({m, n, k, a_step, b_step, c_step});
  // A single row may come with any step, also one that BLAS would refuse.
  if (a_step < k || b_step < (b_transposed ? k : n) || c_step < n) return false;
  return most <= std::numeric_limits<lapack::Int>::max() && lapack::IsAvailable();
}

template <typename T>
void BlasProduct<T>::Run(int threads, FunctionRef<Operands(int64_t i)> operands) const {
  using lapack::Int;
  const auto gemm = lapack::Get<T>().gemm;
  const int64_t down = BlasTiles(m, kTileRows), across = BlasTiles(n, kTileColumns);
  const double tile = static_cast<double>(std::min(m, kTileRows) * std::min(n, kTileColumns));
  const int64_t grain = GrainOf({.flops = 2 * tile * static_cast<double>(k)});
  ParallelFor(threads, count * down * across, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / across % down * kTileRows, column = i % across * kTileColumns;
      const Operands of = operands(i / (down * across));
      const Int rows = static_cast<Int>(std::min(kTileRows, m - row));
      const Int columns = static_cast<Int>(std::min(kTileColumns, n - column));
      const Int depth = static_cast<Int>(k), lda = static_cast<Int>(a_step),
                ldb = static_cast<Int>(b_step), ldc = static_cast<Int>(c_step);
      const T one = 1, beta = accumulate ? 1 : 0;
      // BLAS reads rows as columns: it computes Cᵀ = Bᵀ Aᵀ.
      gemm(b_transposed ? "T" : "N", "N", &columns, &rows, &depth, &one,
           of.b + column * (b_transposed ? b_step : 1), &ldb, of.a + row * a_step, &lda, &beta,
           of.c + row * c_step + column, &ldc, 1, 1);
    }
  });
}

template struct BlasProduct<double>;
template struct BlasProduct<std::complex<float>>;
template struct BlasProduct<std::complex<double>>;

}  // namespace oort
