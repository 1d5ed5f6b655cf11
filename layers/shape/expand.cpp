// SPDX-License-Identifier: MIT
#include <algorithm>

#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

/// `wanted` aligned at the last axis; -1 keeps the extent of the input.
StridedOutput Expanded(const Shape& input, const std::vector<int64_t>& wanted) {
  Shape shape{std::span<const int64_t>(wanted)};
  const int added = shape.rank() - input.rank();
  for (int i = std::max(added, 0); i < shape.rank(); ++i) {
    if (shape[i] == -1) shape[i] = input[i - added];
  }
  if (!shape.IsKnown() || !BroadcastsTo(input, shape)) {
    throw Error(ErrorCode::kInvalidArgument,
                "cannot expand " + input.ToString() + " to " + Value::Ints(wanted).ToString());
  }
  shape.elements();  // throws where the extents multiply to too much
  return Strided(input).Broadcast(shape);
}

class ExpandLayer final : public StridedLayer {
 public:
  explicit ExpandLayer(const LayerInit& init) : StridedLayer(init), sizes_(init.Arg("sizes")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Value& sizes = args[sizes_];
    return {Expanded(input_shape(args), sizes.IsNone() ? std::vector<int64_t>{} : sizes.AsInts())};
  }

 private:
  int sizes_;
};

class ExpandAsLayer final : public StridedLayer {
 public:
  explicit ExpandAsLayer(const LayerInit& init) : StridedLayer(init), other_(init.Arg("other")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& other = args.shape(other_);
    return {Expanded(input_shape(args), {other.begin(), other.end()})};
  }

 private:
  int other_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(expand) {
  using namespace oort;
  registry.Add(OperatorSchema({"Tensor.expand"},
                              "Repeats axes of extent 1 and adds leading ones; -1 keeps an extent")
                   .Tensor("input", kAllDTypes)
                   .Ints("sizes")
                   .Nullable()
                   .Dynamic()
                   .KeepsDType(),
               Create<ExpandLayer>());
  registry.Add(OperatorSchema({"Tensor.expand_as"}, "Repeats axes to the shape of `other`")
                   .Tensor("input", kAllDTypes)
                   .Tensor("other", kAllDTypes),
               Create<ExpandAsLayer>());
}
