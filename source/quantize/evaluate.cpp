// SPDX-License-Identifier: MIT
#include "quantize/evaluate.h"

#include <algorithm>
#include <cmath>

namespace oort::quantize {
namespace {

/// The most likely class of each row of (K) or (N,K); none for other shapes.
std::vector<int64_t> Classes(const Tensor& scores) {
  if (!IsFloat(scores.dtype()) || scores.rank() < 1 || scores.rank() > 2 || scores.dim(-1) < 2) {
    return {};
  }
  const Tensor wide = scores.To(DType::kF32);
  const int64_t width = wide.dim(-1);
  std::vector<int64_t> classes;
  for (int64_t row = 0; row < wide.elements() / width; ++row) {
    const float* begin = wide.data<float>() + row * width;
    classes.push_back(std::max_element(begin, begin + width) - begin);
  }
  return classes;
}

void Count(const Tensor& exact, const Tensor& rough, const int64_t* label, Agreement& agreement) {
  const std::vector<int64_t> wanted = Classes(exact), got = Classes(rough);
  for (size_t i = 0; i < std::min(wanted.size(), got.size()); ++i) {
    ++agreement.rows;
    agreement.same += wanted[i] == got[i] ? 1 : 0;
    if (label == nullptr) continue;
    ++agreement.labelled;
    agreement.float_right += wanted[i] == *label ? 1 : 0;
    agreement.right += got[i] == *label ? 1 : 0;
  }
}

}  // namespace

void ErrorMeter::Add(std::span<const float> exact, std::span<const float> rough) {
  for (size_t i = 0; i < std::min(exact.size(), rough.size()); ++i) {
    const double x = static_cast<double>(exact[i]), y = static_cast<double>(rough[i]);
    signal_ += x * x;
    noise_ += (x - y) * (x - y);
    product_ += x * y;
    rough_ += y * y;
    max_ = std::max(max_, std::fabs(x - y));
    ++count_;
  }
}

void ErrorMeter::Add(const Tensor& exact, const Tensor& rough) {
  if (!IsFloat(exact.dtype()) || exact.shape() != rough.shape()) return;
  const Tensor x = exact.To(DType::kF32), y = rough.To(DType::kF32);
  Add(x.span<float>(), y.span<float>());
}

double ErrorMeter::Sqnr() const {
  constexpr double kMost = 200;
  if (noise_ == 0) return kMost;
  return signal_ == 0 ? -kMost : std::clamp(10 * std::log10(signal_ / noise_), -kMost, kMost);
}

double ErrorMeter::Cosine() const {
  if (signal_ == 0 || rough_ == 0) return signal_ == rough_ ? 1 : 0;
  return product_ / std::sqrt(signal_ * rough_);
}

double Agreement::Drop() const {
  if (labelled == 0) return 1 - share();
  return (static_cast<double>(float_right) - static_cast<double>(right)) /
         static_cast<double>(labelled);
}

Evaluation Evaluate(Session& exact, Session& rough, const Samples& samples,
                    const std::vector<size_t>& numbers, const std::vector<int64_t>& labels,
                    std::string_view phase, const Watcher& watcher) {
  Evaluation evaluation;
  RunOptions run;
  run.stop = watcher.stop;
  for (size_t done = 0; done < numbers.size(); ++done) {
    watcher.Step(phase, done, numbers.size());
    const std::vector<Tensor> inputs = samples.read(numbers[done]);
    const std::vector<Tensor> wanted = exact.Forward(inputs, run);
    const std::vector<Tensor> got = rough.Forward(inputs, run);
    for (size_t i = 0; i < wanted.size(); ++i) evaluation.error.Add(wanted[i], got[i]);
    const int64_t* label = labels.empty() ? nullptr : &labels[numbers[done]];
    if (!wanted.empty()) Count(wanted[0], got[0], label, evaluation.agreement);
  }
  watcher.Step(phase, numbers.size(), numbers.size());
  return evaluation;
}

KeptAnswers::KeptAnswers(Session& exact, const Samples& samples, const std::vector<size_t>& numbers,
                         const Watcher& watcher) {
  RunOptions run;
  run.stop = watcher.stop;
  for (const size_t number : numbers) {
    Kept kept{samples.read(number), {}};
    kept.outputs = exact.Forward(kept.inputs, run);
    kept_.push_back(std::move(kept));
  }
}

ErrorMeter KeptAnswers::Compare(Session& rough) const {
  ErrorMeter meter;
  for (const Kept& kept : kept_) {
    const std::vector<Tensor> got = rough.Forward(kept.inputs);
    for (size_t i = 0; i < got.size(); ++i) meter.Add(kept.outputs[i], got[i]);
  }
  return meter;
}

}  // namespace oort::quantize
