// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "oort/layer.h"

namespace oort {

/// The argument that is a weight: an attribute where there is one of that name.
inline std::string WeightName(const LayerInit& init, const std::string& name) {
  return init.Arg("@" + name) >= 0 ? "@" + name : name;
}

/// A constant weight as the file has it; None if absent or not constant.
inline const Value& WeightValue(const LayerInit& init, const std::string& name) {
  return init.Constant(WeightName(init, name));
}

/// The same as contiguous elements of T, undefined if absent or not constant.
template <typename T>
Tensor ReadWeight(const LayerInit& init, const std::string& name) {
  const Value& value = WeightValue(init, name);
  return value.IsTensor() ? value.AsTensor().To(kDTypeOf<T>) : Tensor();
}

/// A weight of a layer: an attribute, a constant or an input, all of which calls are given.
class AnyWeightArg {
 public:
  AnyWeightArg(const LayerInit& init, const std::string& name)
      : name_(name),
        arg_(init.Arg(WeightName(init, name))),
        constant_(arg_ < 0 || init.IsConstant(WeightName(init, name))) {}

  const std::string& name() const { return name_; }
  int arg() const { return arg_; }
  /// Whether the layer knew it when it was made, or that there is none.
  bool IsConstant() const { return constant_; }
  bool Has(const Args& args) const { return args.Has(arg_); }
  const Shape& shape(const Args& args) const { return args.shape(arg_); }
  /// Throws unless it is absent or has this shape.
  void CheckShape(const Args& args, const Shape& expected) const {
    if (!Has(args) || shape(args) == expected) return;
    throw Error(ErrorCode::kInvalidArgument, "expected '" + name_ + "' of shape " +
                                                 expected.ToString() + ", got " +
                                                 shape(args).ToString());
  }
  /// Converted; undefined where it is absent.
  Tensor As(const Args& args, DType dtype) const {
    return Has(args) ? args.tensor(arg_).To(dtype) : Tensor();
  }
  /// The elements as the call has them, which must be of T; null where it is absent.
  template <typename T>
  const T* given(const Args& args) const {
    return Has(args) ? args.tensor(arg_).data<T>() : nullptr;
  }

 private:
  std::string name_;
  int arg_;
  bool constant_;
};

/// The same for a layer that computes in T; what is known when the layer is made is converted once.
template <typename T>
class WeightArgOf : public AnyWeightArg {
 public:
  WeightArgOf(const LayerInit& init, const std::string& name)
      : AnyWeightArg(init, name), constant_(ReadWeight<T>(init, name)) {}

  /// Undefined where it is an input.
  const Tensor& constant() const { return constant_; }
  /// Lets go of the elements, once the layer has packed them; the shape stays.
  void Forget() { constant_ = Tensor::Meta(constant_.dtype(), constant_.shape()); }
  /// For Layer::Packs.
  bool Packed(int argument) const {
    return argument == arg() && constant_.defined() && !constant_.has_data();
  }
  /// As AnyWeightArg::As, without a conversion at each call where a constant is wanted as T.
  Tensor As(const Args& args, DType dtype) const {
    if (dtype == kDTypeOf<T> && constant_.defined() && constant_.has_data()) return constant_;
    return AnyWeightArg::As(args, dtype);
  }
  /// Null where it is absent.
  const T* data(const Args& args) const {
    return constant_.defined() ? constant_.data<T>() : given<T>(args);
  }

 private:
  Tensor constant_;
};
using WeightArg = WeightArgOf<float>;

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
