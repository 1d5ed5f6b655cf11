// SPDX-License-Identifier: MIT
#include "core/checked.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

/// Axis i of the result is axis i of the input `counts[i]` times in a row; `counts` has at least
/// one count an axis, and surplus counts add leading axes.
StridedOutput Tiled(const Shape& input, const std::vector<int64_t>& counts) {
  Shape shape = input;
  const int rank = static_cast<int>(counts.size());
  if (rank > Shape::kMaxRank) {
    throw Error(ErrorCode::kInvalidArgument,
                "rank " + std::to_string(rank) + " is over the limit of 8");
  }
  while (shape.rank() < rank) shape.Insert(0, 1);
  Strided view{shape};
  for (int i = rank; i-- > 0;) {
    const int64_t count = counts[static_cast<size_t>(i)];
    if (count < 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected counts of at least 0, got " + Value::Ints(counts).ToString());
    }
    shape[i] = CheckedMultiply(shape[i], count);
    view = view.Repeated(i, count);
  }
  shape.elements();  // throws where the extents multiply to too much
  return {view, shape};
}

class RepeatLayer final : public StridedLayer {
 public:
  explicit RepeatLayer(const LayerInit& init)
      : StridedLayer(init),
        tile_(init.Arg("dims") >= 0),
        counts_(init.Arg(tile_ ? "dims" : "sizes")) {}

 protected:
  ScratchVector<StridedOutput> Views(const Args& args) const override {
    const Shape& input = input_shape(args);
    std::vector<int64_t> counts;
    if (args.Has(counts_)) counts = args[counts_].AsInts();
    const size_t rank = static_cast<size_t>(input.rank());
    if (counts.size() < rank && !tile_) {
      throw Error(ErrorCode::kInvalidArgument, "expected a count for each of " +
                                                   std::to_string(rank) + " axes, got " +
                                                   std::to_string(counts.size()));
    }
    if (counts.size() < rank) counts.insert(counts.begin(), rank - counts.size(), 1);
    return {Tiled(input, counts)};
  }

 private:
  bool tile_;  // torch.tile fills up short counts
  int counts_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(repeat) {
  using namespace oort;
  registry.Add(OperatorSchema({"Tensor.repeat"}, "Repeats the tensor sizes[i] times along axis i")
                   .Tensor("input", kAllDTypes)
                   .Ints("sizes")
                   .Nullable()
                   .Dynamic(),
               Create<RepeatLayer>());
  registry.Add(
      OperatorSchema({"torch.tile"}, "Repeats the tensor along its last axes, dims[i] times each")
          .Tensor("input", kAllDTypes)
          .Ints("dims")
          .Nullable()
          .Dynamic(),
      Create<RepeatLayer>());
}
