// SPDX-License-Identifier: MIT
// Window functions and frequencies of Fourier transforms whose length is known only at run time;
// where it is fixed, pnnx stores their values.
#include <cmath>
#include <functional>
#include <numbers>

#include "core/dispatch.h"
#include "graph/dtype_names.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

/// Value i of `length`; `options` are the numbers that the operator has beside its length.
using SignalFormula = std::function<double(int64_t i, int64_t length, std::span<const double>)>;

/// The modified Bessel function of the first kind and order 0.
double BesselI0(double x) {
  double term = 1, sum = 1;
  for (int k = 1; k < 1000 && term > sum * 1e-17; ++k) {
    const double factor = x / (2 * k);
    term *= factor * factor;
    sum += term;
  }
  return sum;
}

double OptionOr(std::span<const double> options, size_t index, double fallback) {
  return index < options.size() ? options[index] : fallback;
}

/// Position i on the way from 0 to 1 over a window. A periodic one lacks its last point, which is
/// the first one of the next.
double WindowPosition(int64_t i, int64_t length, std::span<const double> options) {
  const bool periodic = OptionOr(options, 0, 1) != 0;
  return static_cast<double>(i) / static_cast<double>(periodic ? length : length - 1);
}

double CosineWindow(double position, double a, double b, double c) {
  const double turn = 2 * std::numbers::pi * position;
  return a - b * std::cos(turn) + c * std::cos(2 * turn);
}

double KaiserWindow(double position, double beta) {
  const double from_middle = 2 * position - 1;
  return BesselI0(beta * std::sqrt(std::max(0.0, 1 - from_middle * from_middle))) / BesselI0(beta);
}

/// What one operator of the family does.
struct SignalForm {
  SignalFormula formula;
  size_t options;     // at most; they come between the length and the tensor options
  bool frequencies;   // else a window, which is 1 where it has one point only
  bool half = false;  // only those from 0 on
};

/// ATen's overloads differ in the number of options, so the inputs are told apart by position: the
/// length, some options, then dtype, layout, device and pin_memory.
class SignalLayer final : public Layer {
 public:
  SignalLayer(const LayerInit& init, SignalForm form)
      : form_(std::move(form)), inputs_(init.op().inputs.size()) {
    if (inputs_ < 1 + kTensorOptions || inputs_ > 1 + kTensorOptions + form_.options) {
      throw Error(ErrorCode::kInvalidModel, "expected 5 to " +
                                                std::to_string(1 + kTensorOptions + form_.options) +
                                                " inputs, got " + std::to_string(inputs_));
    }
  }

  std::vector<Value> Infer(const Args& args) const override {
    for (const Value* input : args.inputs()) {
      if (!input->IsConcrete()) return {Value::Deferred()};
    }
    return {Tensor::Meta(ResultType(args), Shape{Count(args)})};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = OutputTensor(outputs[0], ResultType(args), Shape{Count(args)});
    const int64_t length = args.inputs()[0]->AsInt();
    double options[3] = {};
    const size_t count = inputs_ - 1 - kTensorOptions;
    for (size_t i = 0; i < count; ++i) options[i] = args.inputs()[i + 1]->AsFloat();
    VisitDType(output.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      T* const to = output.data<T>();
      context.ParallelFor(output.elements(), 1024, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const bool lone = !form_.frequencies && length == 1;
          to[i] = ConvertElement<T>(lone ? 1.0 : form_.formula(i, length, {options, count}));
        }
      });
    });
  }

 private:
  static constexpr size_t kTensorOptions = 4;

  int64_t Count(const Args& args) const {
    const int64_t length = args.inputs()[0]->AsInt();
    if (length < 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a length of at least 0, got " + std::to_string(length));
    }
    return form_.half ? length / 2 + 1 : length;
  }

  DType ResultType(const Args& args) const {
    const Value& given = *args.inputs()[inputs_ - kTensorOptions];
    const DType dtype = given.IsNone() ? DType::kF32 : RequireTorchDType(given);
    if (!IsFloat(dtype)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a floating-point dtype, got " + std::string(Name(dtype)));
    }
    return dtype;
  }

  SignalForm form_;
  size_t inputs_;
};

void AddSignal(LayerRegistry& registry, const std::string& type, const std::string& doc,
               SignalForm form) {
  registry.Add(OperatorSchema({type}, doc).FreeInputs(),
               [form](const LayerInit& init) { return std::make_unique<SignalLayer>(init, form); });
}

void AddWindows(LayerRegistry& registry) {
  using Options = std::span<const double>;
  AddSignal(registry, "aten::hann_window", "Window 0.5 - 0.5 cos(2πx) (length, periodic)",
            {[](int64_t i, int64_t n, Options o) {
               return CosineWindow(WindowPosition(i, n, o), 0.5, 0.5, 0);
             },
             1, false});
  AddSignal(registry, "aten::hamming_window",
            "Window alpha - beta cos(2πx) (length, periodic, alpha, beta)",
            {[](int64_t i, int64_t n, Options o) {
               return CosineWindow(WindowPosition(i, n, o), OptionOr(o, 1, 0.54),
                                   OptionOr(o, 2, 0.46), 0);
             },
             3, false});
  AddSignal(registry, "aten::blackman_window",
            "Window 0.42 - 0.5 cos(2πx) + 0.08 cos(4πx) (length, periodic)",
            {[](int64_t i, int64_t n, Options o) {
               return CosineWindow(WindowPosition(i, n, o), 0.42, 0.5, 0.08);
             },
             1, false});
  AddSignal(registry, "aten::bartlett_window", "Window 1 - |2x - 1| (length, periodic)",
            {[](int64_t i, int64_t n, Options o) {
               return 1 - std::abs(2 * WindowPosition(i, n, o) - 1);
             },
             1, false});
  AddSignal(registry, "aten::kaiser_window", "Kaiser's window (length, periodic, beta)",
            {[](int64_t i, int64_t n, Options o) {
               return KaiserWindow(WindowPosition(i, n, o), OptionOr(o, 1, 12));
             },
             2, false});
}

/// Frequency i of n points that lie d apart.
double FftFrequency(int64_t i, int64_t n, std::span<const double> options) {
  return static_cast<double>(i) * (1 / (static_cast<double>(n) * OptionOr(options, 0, 1)));
}

}  // namespace
}  // namespace oort

OORT_LAYERS(signal_window) {
  using namespace oort;
  AddWindows(registry);
  AddSignal(registry, "aten::fft_fftfreq", "The frequencies of a Fourier transform (n, d)",
            {[](int64_t i, int64_t n, std::span<const double> options) {
               return FftFrequency(i < (n + 1) / 2 ? i : i - n, n, options);
             },
             1, true});
  AddSignal(registry, "aten::fft_rfftfreq",
            "The first half of the frequencies of a Fourier transform (n, d)",
            {FftFrequency, 1, true, true});
}
