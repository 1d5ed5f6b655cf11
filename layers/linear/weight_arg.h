// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "oort/layer.h"

namespace oort {

/// A weight of a layer: an attribute or a constant, known when the layer is made, or an input.
class WeightArg {
 public:
  WeightArg(const LayerInit& init, const std::string& name)
      : name_(name),
        arg_(init.Arg("@" + name) >= 0 ? init.Arg("@" + name) : init.Arg(name)),
        constant_(init.Weight(name)) {}

  const std::string& name() const { return name_; }
  int arg() const { return arg_; }
  bool Has(const Args& args) const { return args.Has(arg_); }
  const Shape& shape(const Args& args) const { return args.shape(arg_); }
  /// Undefined where it is an input.
  const Tensor& constant() const { return constant_; }
  /// Throws unless the elements can be read as f32; for Infer.
  void CheckDType(const Args& args) const {
    if (constant_.defined() || !Has(args)) return;
    const DType dtype = args.tensor(arg_).dtype();
    if (dtype == DType::kF32) return;
    throw Error(ErrorCode::kInvalidArgument,
                "expected '" + name_ + "' of dtype f32, got " + std::string(Name(dtype)));
  }
  /// Throws unless it is absent or has this shape.
  void CheckShape(const Args& args, const Shape& expected) const {
    if (!Has(args) || shape(args) == expected) return;
    throw Error(ErrorCode::kInvalidArgument, "expected '" + name_ + "' of shape " +
                                                 expected.ToString() + ", got " +
                                                 shape(args).ToString());
  }
  /// Null where it is absent.
  const float* data(const Args& args) const {
    if (constant_.defined()) return constant_.data<float>();
    return Has(args) ? args.tensor(arg_).data<float>() : nullptr;
  }

 private:
  std::string name_;
  int arg_;
  Tensor constant_;
};

/// Modules repeat the shape of their weight in parameters (`in_features`, `kernel_size`). Throws
/// where such a parameter is there and says something else.
inline void CheckRepeated(const LayerInit& init, const std::string& name,
                          std::vector<int64_t> actual) {
  const Value& declared = init.Constant(name);
  if (declared.IsNone()) return;
  std::vector<int64_t> values = declared.AsInts();
  if (values.size() == 1) values.resize(actual.size(), values[0]);
  if (values == actual) return;
  throw Error(ErrorCode::kInvalidModel, name + "=" + declared.ToString() +
                                            " contradicts the weight, which has " +
                                            Value::Ints(actual).ToString());
}

/// The same for `bias=True` and `bias=False`, which tell whether there is a bias.
inline void CheckBiasFlag(const LayerInit& init) {
  const Value& flag = init.Constant("bias");
  if (!flag.IsBool() || init.Arg("@bias") < 0) return;
  const bool absent = init.IsConstant("@bias") && init.Constant("@bias").IsNone();
  if (flag.AsBool() != absent) return;
  throw Error(ErrorCode::kInvalidModel, "bias=" + flag.ToString() + ", but the operator has " +
                                            (absent ? "no" : "an") + " attribute '@bias'");
}

}  // namespace oort
