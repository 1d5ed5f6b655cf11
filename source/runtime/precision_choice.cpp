// SPDX-License-Identifier: MIT
#include "oort/precision_choice.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "cpu/gemm_precision.h"
#include "cpu/lanes_kernels.h"
#include "oort/session.h"

namespace oort {
namespace {

constexpr double kNoLikeness = std::numeric_limits<double>::infinity();

void CollectTensors(const Value& value, std::vector<Tensor>& tensors) {
  if (value.IsTensor()) tensors.push_back(value.AsTensor());
  if (!value.IsList()) return;
  for (const Value& element : value.AsList()) CollectTensors(element, tensors);
}

/// Of tensors of floats; of others whether they are the same.
double ErrorOf(const Tensor& got, const Tensor& want) {
  if (got.shape() != want.shape() || IsFloat(got.dtype()) != IsFloat(want.dtype())) {
    return kNoLikeness;
  }
  if (!IsFloat(want.dtype())) {
    const bool same =
        got.dtype() == want.dtype() && std::memcmp(got.raw(), want.raw(), want.bytes()) == 0;
    return same ? 0 : kNoLikeness;
  }
  const Tensor a = got.To(DType::kF32), b = want.To(DType::kF32);
  double largest = 0, difference = 0;
  for (int64_t i = 0; i < a.elements(); ++i) {
    const double x = a.data<float>()[i], y = b.data<float>()[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!std::isfinite(x) || !std::isfinite(y)) return kNoLikeness;
    difference = std::max(difference, std::abs(x - y));
  }
  for (int64_t i = 0; i < b.elements(); ++i) {
    const double y = std::abs(b.data<float>()[i]);
    if (std::isfinite(y)) largest = std::max(largest, y);
  }
  return difference == 0 ? 0 : difference / largest;
}

double ErrorOf(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  if (got.size() != want.size()) return kNoLikeness;
  double error = 0;
  for (size_t i = 0; i < got.size(); ++i) error = std::max(error, ErrorOf(got[i], want[i]));
  return error;
}

/// The outputs, and the milliseconds of the fastest of a few runs.
std::pair<std::vector<Tensor>, double> TimedRun(const std::shared_ptr<const RuntimeGraph>& graph,
                                                const std::vector<Tensor>& inputs, int threads) {
  using Clock = std::chrono::steady_clock;
  constexpr int kMostRuns = 10;
  constexpr double kEnough = 300;  // milliseconds of all runs
  Session session(graph, {.threads = threads});
  const std::vector<Value> values(inputs.begin(), inputs.end());
  std::vector<Tensor> outputs;
  // The first run makes the plan and touches all memory.
  for (const Value& value : session.Run(values)) CollectTensors(value, outputs);
  double best = kNoLikeness, all = 0;
  for (int i = 0; i < kMostRuns && all < kEnough; ++i) {
    const Clock::time_point start = Clock::now();
    session.Run(values);
    const double time = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    best = std::min(best, time);
    all += time;
  }
  return {outputs, best};
}

std::vector<Precision> Candidates(const PrecisionSearch& search) {
  if (search.device.type != DeviceType::kCpu) {
    return {Precision::kTF32, Precision::kBF16, Precision::kF16};
  }
  std::vector<Precision> candidates;
  for (const Precision precision : {Precision::kBF16, Precision::kF16}) {
    if (HasUnits(precision, search.isa)) candidates.push_back(precision);
  }
  return candidates;
}

}  // namespace

bool HasUnits(Precision precision, Isa isa) {
  switch (precision) {
    case Precision::kF32: return true;
    case Precision::kBF16: {
      const GemmKernels* best = nullptr;
      std::string_view name;
      for (const GemmVariant& variant : GemmVariants(precision)) {
        if (variant.isa != isa) continue;
        best = variant.kernels;
        name = variant.name;
      }
      return best != nullptr && name != "rounded";
    }
    case Precision::kF16: return HasF16Arithmetic(isa);
    case Precision::kTF32: return false;
  }
  return false;
}

PrecisionChoice ChoosePrecision(
    const std::function<std::shared_ptr<const RuntimeGraph>(Precision)>& load,
    const std::vector<Tensor>& inputs, const PrecisionSearch& search) {
  PrecisionChoice choice;
  choice.graph = load(Precision::kF32);
  const auto [want, time] = TimedRun(choice.graph, inputs, search.threads);
  choice.chosen = {Precision::kF32, time, 0};
  choice.trials.push_back(choice.chosen);
  for (const Precision precision : Candidates(search)) {
    std::shared_ptr<const RuntimeGraph> graph = load(precision);
    const auto [got, milliseconds] = TimedRun(graph, inputs, search.threads);
    const PrecisionTrial trial{precision, milliseconds, ErrorOf(got, want)};
    choice.trials.push_back(trial);
    if (trial.error > search.most_error || trial.milliseconds >= choice.chosen.milliseconds) {
      continue;
    }
    choice.chosen = trial;
    choice.graph = std::move(graph);
  }
  return choice;
}

}  // namespace oort
