// SPDX-License-Identifier: MIT
#include "layers/spectral/fft_plan.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <mutex>
#include <numbers>
#include <string>

namespace oort {
namespace {

constexpr size_t kFftCacheBytes = size_t{256} << 20;
constexpr size_t kFftCachePlans = 64;

/// Plans of one kind, the latest first.
template <typename Plan>
class FftCache {
 public:
  std::shared_ptr<const Plan> Get(int64_t length) {
    if (std::shared_ptr<const Plan> found = Find(length)) return found;
    // Made outside of the lock: others need not wait, and a plan may need other plans.
    auto made = std::make_shared<const Plan>(length);
    if (made->bytes() <= kFftCacheBytes) Insert(length, made);
    return made;
  }

 private:
  struct Entry {
    int64_t length;
    std::shared_ptr<const Plan> plan;
  };

  std::shared_ptr<const Plan> Find(int64_t length) {
    const std::lock_guard lock(mutex_);
    const auto at = std::find_if(entries_.begin(), entries_.end(),
                                 [&](const Entry& entry) { return entry.length == length; });
    if (at == entries_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, at);
    return entries_.front().plan;
  }

  void Insert(int64_t length, const std::shared_ptr<const Plan>& plan) {
    const std::lock_guard lock(mutex_);
    entries_.push_front({length, plan});
    bytes_ += plan->bytes();
    while (bytes_ > kFftCacheBytes || entries_.size() > kFftCachePlans) {
      bytes_ -= entries_.back().plan->bytes();
      entries_.pop_back();
    }
  }

  std::mutex mutex_;
  std::list<Entry> entries_;
  size_t bytes_ = 0;
};

/// Radices of a smooth length: large powers of two last, where most factors are.
std::vector<int> FftRadices(int64_t length) {
  std::vector<int> odd;
  for (int p = 3; p <= kFftMaxRadix; p += 2) {
    for (; length % p == 0; length /= p) odd.push_back(p);
  }
  std::vector<int> radices(odd.rbegin(), odd.rend());
  for (; length >= 32 || length == 8; length /= 8) radices.push_back(8);
  for (; length >= 4; length /= 4) radices.push_back(4);
  if (length == 2) radices.push_back(2);
  return radices;
}

template <typename T>
void AppendRoot(std::vector<T>& table, std::complex<double> root) {
  table.push_back(static_cast<T>(root.real()));
  table.push_back(static_cast<T>(root.imag()));
}

}  // namespace

void CheckFftLength(int64_t length) {
  if (length < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                "expected at least 1 point to transform, got " + std::to_string(length));
  }
  if (length > kFftMaxLength) {
    throw Error(ErrorCode::kUnsupported, "expected at most " + std::to_string(kFftMaxLength) +
                                             " points to transform, got " + std::to_string(length));
  }
}

std::complex<double> FftRoot(int64_t k, int64_t n) {
  // In eighths of 1/n turns, folded into the first eighth of the circle.
  int64_t at = k % n * 8;
  const bool lower = at > 4 * n;
  if (lower) at = 8 * n - at;
  const bool left = at > 2 * n;
  if (left) at = 4 * n - at;
  const bool steep = at > n;
  if (steep) at = 2 * n - at;
  const double angle = std::numbers::pi / 4 * static_cast<double>(at) / static_cast<double>(n);
  double x = std::cos(angle), y = std::sin(angle);
  if (steep) std::swap(x, y);
  return {left ? -x : x, lower ? -y : y};
}

std::complex<double> FftChirp(int64_t j, int64_t n) {
  return std::conj(FftRoot(j * j % (2 * n), 2 * n));
}

bool IsSmoothLength(int64_t length) {
  for (int p = 2; p <= kFftMaxRadix; ++p) {
    while (length % p == 0) length /= p;
  }
  return length == 1;
}

int64_t ConvenientLength(int64_t least) {
  int64_t best = INT64_MAX;
  for (int64_t odd : {1, 3, 5, 9, 15}) {
    int64_t length = odd;
    while (length < least) length *= 2;
    best = std::min(best, length);
  }
  return best;
}

template <typename T>
FftPlan<T>::FftPlan(int64_t length) {
  program_.length = length;
  if (IsSmoothLength(length)) {
    AddStages();
  } else {
    AddConvolution();
  }
  program_.order = order_.data();
  program_.stages = stages_.data();
  program_.stage_count = static_cast<int>(stages_.size());
  program_.table = table_.data();
  program_.chirp = chirp_.data();
  program_.spectrum = spectrum_.data();
}

template <typename T>
void FftPlan<T>::AddStages() {
  const int64_t length = program_.length;
  const std::vector<int> radices = FftRadices(length);
  int64_t span = 1;
  for (int radix : radices) {
    FftStage stage{radix, span, static_cast<int64_t>(table_.size()), 0};
    for (int64_t j = 0; j < span; ++j) {
      for (int k = 1; k < radix; ++k) {
        AppendRoot(table_, std::conj(FftRoot(j * k, span * radix)));
      }
    }
    stage.roots = static_cast<int64_t>(table_.size());
    if (radix % 2 != 0) {
      for (int k = 0; k < radix; ++k) AppendRoot(table_, FftRoot(k, radix));
    }
    stages_.push_back(stage);
    span *= radix;
  }
  // The last stage joins every radix-th element, and so on inwards.
  order_.resize(static_cast<size_t>(length) + 1);
  for (int64_t j = 0; j <= length; ++j) {
    int64_t rest = j, size = length, at = 0;
    for (auto radix = radices.rbegin(); radix != radices.rend(); ++radix) {
      size /= *radix;
      at += rest % *radix * size;
      rest /= *radix;
    }
    order_[static_cast<size_t>(j)] = static_cast<int32_t>(j == length ? length : at);
  }
}

template <typename T>
void FftPlan<T>::AddConvolution() {
  const int64_t length = program_.length, wide = ConvenientLength(2 * length - 1);
  inner_ = GetFftPlan<FftPlan>(wide);
  program_.inner = &inner_->program();
  for (int64_t j = 0; j <= length; ++j) order_.push_back(static_cast<int32_t>(j));
  // The chirp's own transform, in double precision; 1/wide is that of the inverse transform.
  const auto exact = GetFftPlan<FftPlan<double>>(wide);
  const FftLaneKernels<double>& kernels = FftSingleLineKernels().f64;
  std::vector<double> block(static_cast<size_t>(2 * wide));
  for (int64_t j = 0; j < length; ++j) {
    const std::complex<double> factor = FftChirp(j, length);
    AppendRoot(chirp_, factor);
    for (int64_t at : {j, (wide - j) % wide}) {
      double* to = block.data() + 2 * exact->program().order[at];
      to[0] = factor.real() / static_cast<double>(wide);
      to[1] = -factor.imag() / static_cast<double>(wide);
    }
  }
  kernels.transform(exact->program(), block.data(), nullptr);
  spectrum_.assign(block.begin(), block.end());
}

template <typename T>
size_t FftPlan<T>::bytes() const {
  return order_.size() * sizeof(int32_t) + stages_.size() * sizeof(FftStage) +
         (table_.size() + chirp_.size() + spectrum_.size()) * sizeof(T) +
         (inner_ ? inner_->bytes() : 0);
}

template <typename T>
FftTurns<T>::FftTurns(int64_t n) {
  for (int64_t k = 0; 4 * k <= n; ++k) AppendRoot(turns_, FftRoot(k, n));
}

template <typename Plan>
std::shared_ptr<const Plan> GetFftPlan(int64_t length) {
  static FftCache<Plan> cache;
  return cache.Get(length);
}

template class FftPlan<float>;
template class FftPlan<double>;
template class FftTurns<float>;
template class FftTurns<double>;
template std::shared_ptr<const FftPlan<float>> GetFftPlan(int64_t);
template std::shared_ptr<const FftPlan<double>> GetFftPlan(int64_t);
template std::shared_ptr<const FftTurns<float>> GetFftPlan(int64_t);
template std::shared_ptr<const FftTurns<double>> GetFftPlan(int64_t);
template std::shared_ptr<const FftLongPlan<float>> GetFftPlan(int64_t);
template std::shared_ptr<const FftLongPlan<double>> GetFftPlan(int64_t);

}  // namespace oort
