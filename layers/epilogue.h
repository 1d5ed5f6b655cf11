// SPDX-License-Identifier: MIT
// What passes fold into the operator before: the result plus an addend, through an activation.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cpu/activation.h"
#include "oort/layer.h"

namespace oort {

/// Declares `activation`, `activation_a` and `activation_b`. The addend is a tensor of its own, so
/// that the operator says where it stands among its inputs: .OptionalTensor("addend", kF32Only).
inline void AddEpilogueParams(OperatorSchema& schema) {
  std::vector<std::string> names;
  for (int kind = 0; kind <= static_cast<int>(Activation::kMish); ++kind) {
    names.emplace_back(Name(static_cast<Activation>(kind)));
  }
  schema.String("activation", "none").OneOf(std::move(names));
  schema.Float("activation_a", 0).Float("activation_b", 0);
}

inline ActivationSpec ReadActivation(const LayerInit& init) {
  const auto number = [&](const char* name) {
    const double value = init.Float(name);
    constexpr double kLargest = std::numeric_limits<float>::max();
    if (std::isinf(value) || std::fabs(value) <= kLargest) return static_cast<float>(value);
    throw Error(ErrorCode::kInvalidModel, std::string(name) + " does not fit into f32");
  };
  // The schema has let only these names pass.
  return {ActivationNamed(init.String("activation")).value_or(Activation::kNone),
          number("activation_a"), number("activation_b")};
}

class FusedEpilogue {
 public:
  explicit FusedEpilogue(const LayerInit& init)
      : addend_(init.Arg("addend")), activation_(ReadActivation(init)) {}

  const ActivationSpec& activation() const { return activation_; }
  /// For results of factors that were rounded: the activation need not be more exact than these.
  void AllowRough() {
    if (activation_.kind == Activation::kSilu) activation_.kind = Activation::kRoughSilu;
  }
  /// Throws unless the addend is absent or has the shape of the output.
  void Check(const Args& args, const Shape& output) const {
    if (!args.Has(addend_) || args.shape(addend_) == output) return;
    throw Error(ErrorCode::kInvalidArgument, "expected an addend of shape " + output.ToString() +
                                                 ", got " + args.shape(addend_).ToString());
  }
  bool has_addend(const Args& args) const { return args.Has(addend_); }
  /// Null where there is none.
  template <typename T = float>
  const T* addend(const Args& args) const {
    return args.Has(addend_) ? args.tensor(addend_).data<T>() : nullptr;
  }

 private:
  int addend_;
  ActivationSpec activation_;
};

}  // namespace oort
