// SPDX-License-Identifier: MIT
// What passes fold into the operator before: the result plus an addend, through an activation.
#pragma once

#include <string>

#include "cpu/activation.h"
#include "oort/layer.h"

namespace oort {

/// Declares the parameters. The addend is a tensor of its own, so that the operator says where it
/// stands among its inputs: .OptionalTensor("addend", kF32Only).
inline void AddEpilogueParams(OperatorSchema& schema) {
  schema.String("activation", "none").Float("activation_a", 0.0).Float("activation_b", 0.0);
}

class FusedEpilogue {
 public:
  explicit FusedEpilogue(const LayerInit& init)
      : addend_(init.Arg("addend")),
        activation_{Named(init.String("activation")),
                    static_cast<float>(init.Float("activation_a")),
                    static_cast<float>(init.Float("activation_b"))} {}

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
  static Activation Named(const std::string& name) {
    if (const auto kind = ActivationNamed(name)) return *kind;
    throw Error(ErrorCode::kInvalidModel, "activation='" + name + "' is not known");
  }
  int addend_;
  ActivationSpec activation_;
};

}  // namespace oort
