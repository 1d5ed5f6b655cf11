// SPDX-License-Identifier: MIT
#include "llm_quantize/budget.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/parallel.h"
#include "weights/weight_grid.h"

namespace oort::llm_quantize {
namespace {

constexpr int64_t kRowsToTry = 96;    // of a matrix: enough to see what a type costs it
constexpr int64_t kTokensToTry = 64;  // of its inputs

double BytesOf(const QuantizeOptions& options, int64_t rows, int64_t columns) {
  const StoredMatrix row = AllocateStored(options, 1, columns);
  return static_cast<double>(rows) *
         static_cast<double>(row.data.bytes() + row.scale.bytes() + row.minimum.bytes());
}

double BytesOf(const StoredMatrix& matrix) {
  return static_cast<double>(matrix.data.bytes() + matrix.scale.bytes() + matrix.minimum.bytes());
}

/// Some of the rows of a matrix or of its inputs, evenly spread.
std::vector<int64_t> SpreadRows(int64_t rows, int64_t most) {
  std::vector<int64_t> spread;
  const int64_t count = std::min(rows, most);
  for (int64_t i = 0; i < count; ++i) spread.push_back(i * rows / count);
  return spread;
}

/// What one row loses in a type: the products with some inputs, or where there are none sums over
/// the columns, each for itself.
class RowLoss {
 public:
  RowLoss(const StoredMatrix& from, const QuantizeOptions& options,
          std::span<const float> importance, const Tensor* inputs)
      : from_(from), grid_(options, from.columns), importance_(importance), inputs_(inputs) {
    if (inputs != nullptr) tokens_ = SpreadRows(inputs->dim(0), kTokensToTry);
  }
  size_t count() const { return inputs_ == nullptr ? 1 : tokens_.size(); }

  /// `lost` and `all` get count() numbers.
  void Measure(int64_t row, double* lost, double* all) const {
    const auto size = static_cast<size_t>(from_.columns);
    std::vector<float> weights(size), difference(size);
    std::vector<int8_t> codes(size);
    ReadRows(from_, row, row + 1, weights.data());
    for (const float value : weights) {
      if (std::isfinite(value)) continue;
      throw Error(ErrorCode::kInvalidArgument, "a weight is not finite");
    }
    const RowGrid fit = grid_.Fit(weights, importance_);
    grid_.Round(weights, fit, codes);
    for (size_t k = 0; k < size; ++k) {
      const GroupFit& group = fit.groups[k / static_cast<size_t>(grid_.group())];
      difference[k] = group.scale * static_cast<float>(codes[k]) + group.minimum - weights[k];
    }
    if (inputs_ == nullptr) {
      for (size_t k = 0; k < size; ++k) {
        const double weight = importance_.empty() ? 1 : static_cast<double>(importance_[k]);
        *lost += weight * std::pow(static_cast<double>(difference[k]), 2);
        *all += weight * std::pow(static_cast<double>(weights[k]), 2);
      }
      return;
    }
    for (size_t t = 0; t < tokens_.size(); ++t) {
      const float* x = inputs_->data<float>() + tokens_[t] * from_.columns;
      lost[t] = std::pow(Dot(difference, x), 2);
      all[t] = std::pow(Dot(weights, x), 2);
    }
  }

 private:
  static double Dot(const std::vector<float>& a, const float* b) {
    double sum = 0;
    for (size_t k = 0; k < a.size(); ++k) {
      sum += static_cast<double>(a[k]) * static_cast<double>(b[k]);
    }
    return sum;
  }

  const StoredMatrix& from_;
  WeightGrid grid_;
  std::span<const float> importance_;
  const Tensor* inputs_;
  std::vector<int64_t> tokens_;
};

double SampledError(const StoredMatrix& from, const QuantizeOptions& options,
                    std::span<const float> importance, const Tensor* inputs, int threads) {
  const RowLoss loss(from, options, importance, inputs);
  const std::vector<int64_t> rows = SpreadRows(from.rows, kRowsToTry);
  const size_t count = loss.count();
  std::vector<double> lost(rows.size() * count), all(lost.size());
  ParallelFor(threads, static_cast<int64_t>(rows.size()), 1, [&](int64_t first, int64_t last) {
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i) {
      loss.Measure(rows[i], lost.data() + i * count, all.data() + i * count);
    }
  });
  double sum = 0;
  for (size_t t = 0; t < count; ++t) {
    double here = 0, whole = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      here += lost[i * count + t];
      whole += all[i * count + t];
    }
    if (whole > 0) sum += here / whole;
  }
  return sum / static_cast<double>(std::max<size_t>(1, count));
}

}  // namespace

std::vector<size_t> PickOffers(std::span<const std::vector<Offer>> matrices, double most_bytes) {
  std::vector<size_t> taken(matrices.size(), 0);
  double bytes = 0;
  for (const std::vector<Offer>& offers : matrices) bytes += offers.front().bytes;
  if (bytes > most_bytes) {
    throw Error(ErrorCode::kInvalidArgument,
                "the budget is too small: the smallest types of all matrices take " +
                    std::to_string(static_cast<int64_t>(bytes)) + " bytes, and there are " +
                    std::to_string(static_cast<int64_t>(std::max(0.0, most_bytes))));
  }
  while (true) {
    double best_gain = 0;
    size_t best_matrix = 0, best_offer = 0;
    for (size_t m = 0; m < matrices.size(); ++m) {
      const Offer& now = matrices[m][taken[m]];
      for (size_t o = taken[m] + 1; o < matrices[m].size(); ++o) {
        const Offer& next = matrices[m][o];
        const double more = next.bytes - now.bytes;
        if (bytes + more > most_bytes) continue;
        const double saved = now.error - next.error;
        const double gain = more > 0    ? saved / more
                            : saved > 0 ? std::numeric_limits<double>::infinity()
                                        : 0;
        if (gain <= best_gain) continue;
        best_gain = gain;
        best_matrix = m;
        best_offer = o;
      }
    }
    if (best_gain <= 0) return taken;
    bytes +=
        matrices[best_matrix][best_offer].bytes - matrices[best_matrix][taken[best_matrix]].bytes;
    taken[best_matrix] = best_offer;
  }
}

void BudgetPicker::Try(const std::string& name, std::span<const float> importance,
                       const Tensor* inputs) {
  const StoredMatrix from = checkpoint_.Matrix(name);
  weights_ += static_cast<double>(from.rows) * static_cast<double>(from.columns);
  std::vector<QuantizeOptions> ladder = targets_.Ladder(from.columns);
  if (targets_.HasRule(name) || ladder.empty()) {
    const auto target = targets_.For(name, from);
    fixed_ += target ? BytesOf(*target, from.rows, from.columns) : BytesOf(from);
    return;
  }
  std::vector<Offer> tried;
  for (const QuantizeOptions& type : ladder) {
    tried.push_back({BytesOf(type, from.rows, from.columns),
                     SampledError(from, type, importance, inputs, threads_)});
  }
  offers_.push_back(std::move(tried));
  open_.push_back({name, std::move(ladder)});
}

void BudgetPicker::Pick(double bits, Targets& targets) const {
  const std::vector<size_t> taken = PickOffers(offers_, bits / 8 * weights_ - fixed_);
  for (size_t i = 0; i < open_.size(); ++i) {
    targets.Pick(open_[i].name, open_[i].types[taken[i]]);
  }
}

}  // namespace oort::llm_quantize
