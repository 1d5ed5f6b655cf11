// SPDX-License-Identifier: MIT
#include "layers/shape/strided_layer.h"

#include <algorithm>

#include "layers/shape/strided_copy.h"

namespace oort {
namespace {

int FindInput(const LayerInit& init) {
  for (const char* name : {"input", "self", "tensor"}) {
    if (const int index = init.Arg(name); index >= 0) return index;
  }
  throw Error(ErrorCode::kInternal, "the schema declares no input");
}

}  // namespace

StridedLayer::StridedLayer(const LayerInit& init)
    : input_(FindInput(init)), other_(init.Arg("other")), output_count_(init.op().outputs.size()) {}

bool StridedLayer::IsKnown(const Args& args) const {
  for (int i = 0; i < args.size(); ++i) {
    const bool shape_only = i == input_ || i == other_;
    if (shape_only ? args[i].IsDeferred() : !args[i].IsConcrete()) return false;
  }
  return true;
}

std::vector<Value> StridedLayer::Infer(const Args& args) const {
  if (!IsKnown(args)) return std::vector<Value>(output_count_, Value::Deferred());
  const DType dtype = ResultType(args.tensor(input_).dtype());
  std::vector<Value> metas;
  for (const StridedOutput& output : Views(args)) {
    metas.emplace_back(Tensor::Meta(dtype, output.shape));
  }
  if (metas.size() == output_count_) return metas;
  if (output_count_ == 1) return {Value(std::move(metas))};  // a list, to be unpacked later
  throw Error(ErrorCode::kInvalidArgument,
              "expected " + std::to_string(output_count_) + " parts of a tensor " +
                  args.tensor(input_).ToString() + ", got " + std::to_string(metas.size()));
}

std::vector<Reuse> StridedLayer::Reuses(const Args& args) const {
  if (!IsKnown(args)) return {};
  const ScratchVector<StridedOutput> views = Views(args);
  const bool dense = std::all_of(views.begin(), views.end(),
                                 [](const StridedOutput& output) { return output.view.IsDense(); });
  if (!dense || views.size() != output_count_) return {};
  std::vector<Reuse> reuses;
  for (const StridedOutput& output : views) {
    const size_t offset = output.view.IsEmpty() ? 0 : static_cast<size_t>(output.view.offset());
    reuses.push_back({Reuse::kView, input_, static_cast<int>(reuses.size()),
                      offset * ItemSize(args.tensor(input_).dtype())});
  }
  return reuses;
}

void StridedLayer::Forward(const Context& context, const Args& args,
                           std::span<Value> outputs) const {
  const Tensor& input = args.tensor(input_);
  const DType dtype = ResultType(input.dtype());
  const ScratchVector<StridedOutput> views = Views(args);
  if (views.size() != outputs.size()) {
    if (outputs.size() != 1) throw Error(ErrorCode::kInternal, "outputs changed their number");
    if (!outputs[0].IsList()) outputs[0] = Value::List(views.size());
    outputs = outputs[0].AsList();
  }
  for (size_t i = 0; i < views.size(); ++i) {
    Tensor& output = OutputTensor(outputs[i], dtype, views[i].shape);
    CopyStrided(context, ItemSize(input.dtype()), input.raw(), views[i].view, output.raw());
  }
}

StridedOutput Reshaped(const Shape& from, const Shape& to) {
  if (from.elements() != to.elements()) {
    throw Error(ErrorCode::kInvalidArgument,
                "cannot reshape " + from.ToString() + " to " + to.ToString());
  }
  return {Strided(from), to};
}

Tensor& OutputTensor(Value& output, DType dtype, const Shape& shape) {
  const bool allocated = output.IsTensor() && output.AsTensor().has_data();
  if (!allocated) output = Tensor(dtype, shape);
  return output.AsTensor();
}

ScratchVector<int> NormalizeAxes(const Value& axes, int rank) {
  ScratchVector<int> result;
  if (axes.IsNone()) return result;
  const std::span<const Value> list =
      axes.IsList() ? std::span<const Value>(axes.AsList()) : std::span(&axes, 1);
  for (const Value& item : list) {
    const int64_t axis = item.AsInt();
    const int normalized = NormalizeAxis(axis, rank);
    if (std::find(result.begin(), result.end(), normalized) != result.end()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "axis " + std::to_string(axis) + " of " + axes.ToString() + " appears twice");
    }
    result.push_back(normalized);
  }
  return result;
}

}  // namespace oort
