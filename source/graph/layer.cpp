// SPDX-License-Identifier: MIT
#include "oort/layer.h"

namespace oort {
namespace {

double TensorBytes(const Value& value) {
  if (value.IsTensor()) return static_cast<double>(value.AsTensor().bytes());
  double bytes = 0;
  if (value.IsList()) {
    for (const Value& item : value.AsList()) bytes += TensorBytes(item);
  }
  return bytes;
}

}  // namespace

std::vector<Reuse> Layer::Reuses(const Args&) const { return {}; }

size_t Layer::Workspace(const Args&, int) const { return 0; }

bool Layer::Packs(int) const { return false; }

Cost Layer::Work(const Args& args, std::span<const Value> outputs) const {
  Cost cost;
  for (int i = 0; i < args.size(); ++i) cost.bytes += TensorBytes(args[i]);
  for (const Value* value : args.variadic()) cost.bytes += TensorBytes(*value);
  for (const Value& value : outputs) cost.bytes += TensorBytes(value);
  return cost;
}

bool LayerInit::IsConstant(std::string_view name) const {
  const int arg = Arg(name);
  if (arg < 0) return false;
  const BoundArg& bound = bound_.args[static_cast<size_t>(arg)];
  return bound.input < 0 || !constant_inputs_[static_cast<size_t>(bound.input)].IsDeferred();
}

const Value& LayerInit::Constant(std::string_view name) const {
  static const Value kNone;
  if (!IsConstant(name)) return kNone;
  const BoundArg& bound = bound_.args[static_cast<size_t>(Arg(name))];
  return bound.input < 0 ? bound.value : constant_inputs_[static_cast<size_t>(bound.input)];
}

const Value& LayerInit::Required(std::string_view name) const {
  if (!IsConstant(name)) {
    throw Error(ErrorCode::kUnsupported,
                "parameter '" + std::string(name) + "' must be known when the model is loaded");
  }
  return Constant(name);
}

Tensor LayerInit::Weight(std::string_view name) const {
  const std::string attribute = "@" + std::string(name);
  const Value& value = Arg(attribute) >= 0 ? Constant(attribute) : Constant(name);
  if (!value.IsTensor()) return {};
  return value.AsTensor().To(DType::kF32);
}

}  // namespace oort
