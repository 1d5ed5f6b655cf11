// SPDX-License-Identifier: MIT
#include <cmath>

#include "core/dispatch.h"
#include "layers/shape/device_shapes.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

bool IsIntegral(const Value& value) {
  if (!value.IsTensor()) return value.IsInt() || value.IsBool();
  return IsInteger(value.AsTensor().dtype()) || value.AsTensor().dtype() == DType::kBool;
}

class ArangeLayer final : public Layer {
 public:
  explicit ArangeLayer(const LayerInit& init)
      : start_(init.Arg("start")),
        end_(init.Arg("end")),
        step_(init.Arg("step")),
        dtype_(init.Arg("dtype")) {
    if (init.device().type == DeviceType::kCpu) return;
    for (const char* name : {"start", "end", "step"}) {
      if (init.IsConstant(name)) continue;
      throw Error(ErrorCode::kUnsupported, "gives what is not known before it runs");
    }
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    for (int i : {start_, end_, step_}) {
      if (!args[i].IsConcrete()) return {Value::Deferred()};
    }
    return {Tensor::Meta(ResultType(args), Shape{Length(args)})};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const int64_t length = Length(args);
    Tensor& output = OutputTensor(outputs[0], ResultType(args), Shape{length});
    if (context.stream() != nullptr) {
      const bool whole = IsInteger(output.dtype()) || output.dtype() == DType::kBool;
      return ArangeOnDevice(*context.stream(), whole ? 0 : args[start_].AsFloat(),
                            whole ? 0 : args[step_].AsFloat(), whole ? ToInt(args[start_]) : 0,
                            whole ? ToInt(args[step_]) : 0, output);
    }
    VisitDType(output.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      T* target = output.data<T>();
      if constexpr (std::is_integral_v<T>) {
        // Wraps like torch where the dtype is too small for the numbers.
        const uint64_t start = static_cast<uint64_t>(ToInt(args[start_]));
        const uint64_t step = static_cast<uint64_t>(ToInt(args[step_]));
        for (int64_t i = 0; i < length; ++i) {
          target[i] = static_cast<T>(static_cast<int64_t>(start + static_cast<uint64_t>(i) * step));
        }
      } else {
        const double start = args[start_].AsFloat(), step = args[step_].AsFloat();
        for (int64_t i = 0; i < length; ++i) {
          target[i] = ConvertElement<T>(start + static_cast<double>(i) * step);
        }
      }
    });
  }

 private:
  DType ResultType(const Args& args) const {
    if (args.Has(dtype_)) return ParseDType(args[dtype_].AsString());
    const bool integral =
        IsIntegral(args[start_]) && IsIntegral(args[end_]) && IsIntegral(args[step_]);
    return integral ? DType::kI64 : DType::kF32;
  }

  static int64_t ToInt(const Value& value) {
    return IsIntegral(value) ? value.AsInt() : ConvertElement<int64_t>(value.AsFloat());
  }

  int64_t Length(const Args& args) const {
    // torch computes in i64 for an i64 result, and in double for everything else.
    if (ResultType(args) == DType::kI64) {
      const int64_t start = ToInt(args[start_]), end = ToInt(args[end_]);
      return CheckedLength(args, static_cast<long double>(end) - static_cast<long double>(start),
                           static_cast<long double>(ToInt(args[step_])));
    }
    return CheckedLength(args, args[end_].AsFloat() - args[start_].AsFloat(),
                         args[step_].AsFloat());
  }

  template <typename Real>
  int64_t CheckedLength(const Args& args, Real distance, Real step) const {
    const Real length = std::ceil(distance / step);
    // NaN and infinity fail the comparisons.
    const bool valid = step != 0 && length >= 0 && length <= Real(INT32_MAX) * Real(INT32_MAX);
    if (!valid) {
      throw Error(ErrorCode::kInvalidArgument, "no numbers from " + args[start_].ToString() +
                                                   " to " + args[end_].ToString() +
                                                   " in steps of " + args[step_].ToString());
    }
    return static_cast<int64_t>(length);
  }

  int start_, end_, step_, dtype_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(arange) {
  using namespace oort;
  registry.Add(OperatorSchema({"torch.arange"}, "start, start + step, … up to but without `end`")
                   .Number("start", Value(0))
                   .Dynamic()
                   .Number("end")
                   .Dynamic()
                   .Number("step", Value(1))
                   .Dynamic()
                   .DTypeName("dtype")
                   .Nullable(),
               Create<ArangeLayer>());
}
