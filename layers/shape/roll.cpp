// SPDX-License-Identifier: MIT
#include <array>

#include "layers/shape/strided_copy.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

using Shifts = std::array<int64_t, Shape::kMaxRank>;

class RollLayer final : public Layer {
 public:
  explicit RollLayer(const LayerInit& init)
      : input_(init.Arg("input")), shifts_(init.Arg("shifts")), dims_(init.Arg("dims")) {}

  std::vector<Value> Infer(const Args& args) const override {
    if (!args[shifts_].IsConcrete()) return {Value::Deferred()};
    const Tensor& input = args.tensor(input_);
    Resolve(args, Extents(args));
    return {Tensor::Meta(input.dtype(), input.shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(input_);
    Tensor& output = OutputTensor(outputs[0], input.dtype(), input.shape());
    if (input.elements() == 0) return;
    const Shape extents = Extents(args);
    const Strided whole(extents);
    CopyRolled(context, input, output, Resolve(args, extents), 0, whole, whole);
  }

 private:
  bool Flat(const Args& args) const { return !args.Has(dims_) || args[dims_].AsInts().empty(); }

  /// Without axes the tensor is rolled as if it were flat.
  Shape Extents(const Args& args) const {
    const Shape& shape = args.shape(input_);
    return Flat(args) ? Shape{shape.elements()} : shape;
  }

  /// How far each axis moves, in [0, extent). An axis may be named several times.
  Shifts Resolve(const Args& args, const Shape& extents) const {
    const std::vector<int64_t> shifts = args[shifts_].AsInts();
    const std::vector<int64_t> dims = Flat(args) ? std::vector<int64_t>{0} : args[dims_].AsInts();
    if (shifts.size() != dims.size()) {
      throw Error(ErrorCode::kInvalidArgument, "expected " + std::to_string(dims.size()) +
                                                   " shifts, got " + std::to_string(shifts.size()));
    }
    Shifts total{};
    for (size_t i = 0; i < dims.size(); ++i) {
      const int axis = NormalizeAxis(dims[i], extents.rank());
      const int64_t extent = extents.rank() == 0 ? 1 : extents[axis];
      int64_t& shift = total[static_cast<size_t>(axis)];
      if (extent > 0) shift = (shift + shifts[i] % extent + extent) % extent;
    }
    return total;
  }

  /// Each axis that moves falls into two pieces that change places.
  static void CopyRolled(const Context& context, const Tensor& input, Tensor& output,
                         const Shifts& shifts, int axis, const Strided& from, const Strided& to) {
    while (axis < from.rank() && shifts[static_cast<size_t>(axis)] == 0) ++axis;
    if (axis >= from.rank()) {
      CopyStrided(context, ItemSize(input.dtype()), input.raw(), from, output.raw(), to);
      return;
    }
    const int64_t shift = shifts[static_cast<size_t>(axis)], rest = from[axis].extent - shift;
    CopyRolled(context, input, output, shifts, axis + 1, from.Sliced(axis, 0, rest),
               to.Sliced(axis, shift, rest));
    CopyRolled(context, input, output, shifts, axis + 1, from.Sliced(axis, rest, shift),
               to.Sliced(axis, 0, shift));
  }

  int input_, shifts_, dims_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(roll) {
  using namespace oort;
  registry.Add(OperatorSchema({"torch.roll"},
                              "Moves the elements along `dims`, those pushed out come back at the "
                              "other end; without dims the tensor counts as flat")
                   .Tensor("input", kAllDTypes)
                   .Ints("shifts")
                   .Dynamic()
                   .Ints("dims")
                   .Nullable(),
               Create<RollLayer>());
}
