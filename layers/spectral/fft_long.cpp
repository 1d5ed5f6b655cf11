// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "core/parallel.h"
#include "layers/spectral/fft_plan.h"

namespace oort {
namespace {

/// The divisor nearest to the square root, from below. A smooth length has one.
int64_t FftBalancedDivisor(int64_t length) {
  auto divisor = static_cast<int64_t>(std::sqrt(static_cast<double>(length)));
  while (length % divisor != 0) --divisor;
  return divisor;
}

/// Points the lanes at neighbours that lie `lane_step` apart; the last one is repeated.
template <typename T, typename Access>
void FftAimLanes(Access& access, T* first, int lanes, int lane_count, int64_t lane_step) {
  for (int l = 0; l < lanes; ++l) {
    access.lanes[l] = first + std::min(l, lane_count - 1) * lane_step;
  }
  access.lane_step = lane_count == lanes ? lane_step : 0;
}

template <typename T>
void MultiplyPairs(T* x, const T* factors, int64_t count, bool conjugate) {
  for (int64_t i = 0; i < count; ++i) {
    const T re = x[2 * i], im = x[2 * i + 1], a = factors[2 * i], b = factors[2 * i + 1];
    x[2 * i] = re * a - im * b;
    x[2 * i + 1] = conjugate ? -(re * b + im * a) : re * b + im * a;
  }
}

}  // namespace

template <typename T>
FftLongPlan<T>::FftLongPlan(int64_t length) : length_(length) {
  if (!IsSmoothLength(length)) {
    AddConvolution();
    return;
  }
  const int64_t rows = FftBalancedDivisor(length), columns = length / rows;
  columns_ = GetFftPlan<FftPlan<T>>(rows);
  rows_ = GetFftPlan<FftPlan<T>>(columns);
  re_.resize(static_cast<size_t>(length));
  im_.resize(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i) {
    const std::complex<double> root = FftRoot(i / columns * (i % columns), length);
    re_[static_cast<size_t>(i)] = static_cast<T>(root.real());
    im_[static_cast<size_t>(i)] = static_cast<T>(-root.imag());
  }
}

template <typename T>
void FftLongPlan<T>::AddConvolution() {
  const int64_t wide = ConvenientLength(2 * length_ - 1);
  inner_ = GetFftPlan<FftLongPlan>(wide);
  const auto exact = GetFftPlan<FftLongPlan<double>>(wide);
  const FftLaneKernels<double>& kernels = FftSingleLineKernels().f64;
  std::vector<double> line(static_cast<size_t>(2 * wide)), scratch(line.size());
  std::vector<double> block(static_cast<size_t>(2 * exact->block() * kernels.lanes));
  chirp_.resize(static_cast<size_t>(2 * length_));
  for (int64_t j = 0; j < length_; ++j) {
    const std::complex<double> factor = FftChirp(j, length_);
    chirp_[static_cast<size_t>(2 * j)] = static_cast<T>(factor.real());
    chirp_[static_cast<size_t>(2 * j + 1)] = static_cast<T>(factor.imag());
    for (int64_t at : {j, (wide - j) % wide}) {
      line[static_cast<size_t>(2 * at)] = factor.real() / static_cast<double>(wide);
      line[static_cast<size_t>(2 * at + 1)] = -factor.imag() / static_cast<double>(wide);
    }
  }
  exact->Run(kernels, line.data(), scratch.data(), block.data(), 1);
  spectrum_.assign(line.begin(), line.end());
}

template <typename T>
int64_t FftLongPlan<T>::block() const {
  return inner_ ? inner_->block() : std::max(columns_->length(), rows_->length());
}

template <typename T>
size_t FftLongPlan<T>::bytes() const {
  const size_t own = (re_.size() + im_.size() + chirp_.size() + spectrum_.size()) * sizeof(T);
  return own + (inner_ ? inner_->bytes() : columns_->bytes() + rows_->bytes());
}

template <typename T>
void FftLongPlan<T>::Run(const FftLaneKernels<T>& kernels, T* line, T* scratch, T* blocks,
                         int threads) const {
  if (inner_) {
    RunConvolution(kernels, line, scratch, blocks, threads);
  } else {
    RunMatrix(kernels, line, scratch, blocks, threads);
  }
}

template <typename T>
void FftLongPlan<T>::RunMatrix(const FftLaneKernels<T>& kernels, T* line, T* middle, T* blocks,
                               int threads) const {
  const int64_t rows = columns_->length(), columns = rows_->length();
  const int lanes = kernels.lanes;
  // Every thread has a block of its own, so the pieces are dealt out by thread.
  const auto over_groups = [&](int64_t count, const auto& body) {
    const int64_t groups = CeilDivide(count, lanes), pieces = std::min<int64_t>(threads, groups);
    ParallelPieces(threads, static_cast<int>(pieces), kManyGrains, [&](int piece) {
      T* const own = blocks + piece * 2 * lanes * block();
      for (int64_t g = groups * piece / pieces; g < groups * (piece + 1) / pieces; ++g) {
        body(g * lanes, static_cast<int>(std::min<int64_t>(lanes, count - g * lanes)), own);
      }
    });
  };
  over_groups(columns, [&](int64_t first, int lane_count, T* own) {
    FftLoad<T> load;
    FftAimLanes<const T>(load, line + 2 * first, lanes, lane_count, 2);
    load.step = 2 * columns;
    load.im_offset = 1;
    load.re_count = load.im_count = load.total = rows;
    kernels.load(load, columns_->program().order, own);
    kernels.transform(columns_->program(), own, nullptr);
    kernels.rotate(own, rows, {re_.data() + first, im_.data() + first, columns, lane_count});
    FftStore<T> store;
    FftAimLanes(store, middle + 2 * first, lanes, lane_count, 2);
    store.lane_count = lane_count;
    store.step = 2 * columns;
    store.im_offset = 1;
    store.count = rows;
    kernels.store(store, own);
  });
  over_groups(rows, [&](int64_t first, int lane_count, T* own) {
    FftLoad<T> load;
    FftAimLanes<const T>(load, middle + 2 * columns * first, lanes, lane_count, 2 * columns);
    load.step = 2;
    load.im_offset = 1;
    load.re_count = load.im_count = load.total = columns;
    kernels.load(load, rows_->program().order, own);
    kernels.transform(rows_->program(), own, nullptr);
    FftStore<T> store;
    FftAimLanes(store, line + 2 * first, lanes, lane_count, 2);
    store.lane_count = lane_count;
    store.step = 2 * rows;
    store.im_offset = 1;
    store.count = columns;
    kernels.store(store, own);
  });
}

template <typename T>
void FftLongPlan<T>::RunConvolution(const FftLaneKernels<T>& kernels, T* line, T* scratch,
                                    T* blocks, int threads) const {
  const int64_t wide = inner_->length_;
  T* const work = scratch;
  T* const middle = scratch + 2 * wide;
  std::copy_n(line, 2 * length_, work);
  std::fill(work + 2 * length_, work + 2 * wide, T(0));
  MultiplyPairs(work, chirp_.data(), length_, false);
  inner_->Run(kernels, work, middle, blocks, threads);
  // A transform of conjugates is the conjugate of the inverse transform.
  MultiplyPairs(work, spectrum_.data(), wide, true);
  inner_->Run(kernels, work, middle, blocks, threads);
  for (int64_t i = 0; i < length_; ++i) {
    line[2 * i] = work[2 * i];
    line[2 * i + 1] = -work[2 * i + 1];
  }
  MultiplyPairs(line, chirp_.data(), length_, false);
}

template class FftLongPlan<float>;
template class FftLongPlan<double>;

}  // namespace oort
