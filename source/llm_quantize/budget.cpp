// SPDX-License-Identifier: MIT
#include "llm_quantize/budget.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "core/parallel.h"
#include "weights/weight_grid.h"

namespace oort::llm_quantize {
namespace {

constexpr int64_t kRowsToTry = 96;  // of a matrix: enough to see what a type costs it

double BytesOf(const QuantizeOptions& options, int64_t rows, int64_t columns) {
  const StoredMatrix row = AllocateStored(options, 1, columns);
  return static_cast<double>(rows) *
         static_cast<double>(row.data.bytes() + row.scale.bytes() + row.minimum.bytes());
}

double BytesOf(const StoredMatrix& matrix) {
  return static_cast<double>(matrix.data.bytes() + matrix.scale.bytes() + matrix.minimum.bytes());
}

/// What rows of a matrix lose in a type, by what they were: over some of them, evenly spread.
double SampledError(const StoredMatrix& from, const QuantizeOptions& options,
                    std::span<const float> importance, int threads) {
  const WeightGrid grid(options, from.columns);
  const int64_t rows = std::min(from.rows, kRowsToTry);
  const auto size = static_cast<size_t>(from.columns);
  std::vector<double> lost(static_cast<size_t>(rows)), all(lost.size());
  ParallelFor(threads, rows, 1, [&](int64_t first, int64_t last) {
    std::vector<float> x(size);
    std::vector<int8_t> codes(size);
    for (int64_t i = first; i < last; ++i) {
      const int64_t row = i * from.rows / rows;
      ReadRows(from, row, row + 1, x.data());
      for (const float value : x) {
        if (std::isfinite(value)) continue;
        throw Error(ErrorCode::kInvalidArgument, "a weight is not finite");
      }
      const RowGrid fit = grid.Fit(x, importance);
      grid.Round(x, fit, codes);
      for (size_t k = 0; k < size; ++k) {
        const GroupFit& group = fit.groups[k / static_cast<size_t>(grid.group())];
        const float stored = group.scale * static_cast<float>(codes[k]) + group.minimum;
        const double weight = importance.empty() ? 1 : static_cast<double>(importance[k]);
        lost[static_cast<size_t>(i)] += weight * std::pow(static_cast<double>(stored - x[k]), 2);
        all[static_cast<size_t>(i)] += weight * std::pow(static_cast<double>(x[k]), 2);
      }
    }
  });
  double sum = 0, whole = 0;
  for (size_t i = 0; i < lost.size(); ++i) {
    sum += lost[i];
    whole += all[i];
  }
  return whole > 0 ? sum / whole : 0;
}

}  // namespace

std::vector<size_t> PickOffers(std::span<const std::vector<Offer>> matrices, double most_bytes) {
  std::vector<size_t> taken(matrices.size(), 0);
  double bytes = 0;
  for (const std::vector<Offer>& offers : matrices) bytes += offers.front().bytes;
  if (bytes > most_bytes) {
    std::ostringstream text;
    text << "the budget is too small: the smallest types take " << bytes / most_bytes
         << " times as much";
    throw Error(ErrorCode::kInvalidArgument, text.str());
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

void PickWithinBudget(const Checkpoint& checkpoint, const std::vector<std::string>& names,
                      const Importance& importance, double bits, int threads, Targets& targets) {
  const ThreadLease lease(threads);
  std::vector<std::vector<Offer>> offers;
  std::vector<std::vector<QuantizeOptions>> types;
  std::vector<std::string> open;
  double weights = 0, fixed = 0;
  for (const std::string& name : names) {
    const StoredMatrix from = checkpoint.Matrix(name);
    weights += static_cast<double>(from.rows) * static_cast<double>(from.columns);
    const std::vector<QuantizeOptions> ladder = targets.Ladder(from.columns);
    if (targets.HasRule(name) || ladder.empty()) {
      const auto target = targets.For(name, from);
      fixed += target ? BytesOf(*target, from.rows, from.columns) : BytesOf(from);
      continue;
    }
    const auto known = importance.find(name);
    const std::vector<float> counts =
        known == importance.end() ? std::vector<float>{} : ErrorWeights(known->second);
    std::vector<Offer> tried;
    for (const QuantizeOptions& type : ladder) {
      tried.push_back(
          {BytesOf(type, from.rows, from.columns), SampledError(from, type, counts, threads)});
    }
    offers.push_back(std::move(tried));
    types.push_back(ladder);
    open.push_back(name);
  }
  const std::vector<size_t> taken = PickOffers(offers, bits / 8 * weights - fixed);
  for (size_t i = 0; i < open.size(); ++i) targets.Pick(open[i], types[i][taken[i]]);
}

}  // namespace oort::llm_quantize
