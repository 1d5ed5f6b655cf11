// SPDX-License-Identifier: MIT
#include <array>

#include "layers/shape/strided_copy.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

using Shifts = std::array<int64_t, Shape::kMaxRank>;

/// Each axis that moves falls into two pieces that change places.
void CopyRolled(const Context& context, const Tensor& input, Tensor& output, const Shifts& shifts,
                int axis, const Strided& from, const Strided& to) {
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

class RollLayer final : public Layer {
 public:
  explicit RollLayer(const LayerInit& init)
      : input_(init.Arg("input")), shifts_(init.Arg("shifts")), dims_(init.Arg("dims")) {}

  LayerTraits Traits() const override { return {.either_device = true}; }
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

  int input_, shifts_, dims_;
};

/// Moves frequency 0 from the front into the middle of the axes, or back.
class FftShiftLayer final : public Layer {
 public:
  FftShiftLayer(const LayerInit& init, bool back)
      : back_(back), input_(init.Arg("input")), dims_(init.Arg("dim")) {}

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    Resolve(args);
    return {Tensor::Meta(args.tensor(input_).dtype(), args.shape(input_))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(input_);
    if (input.elements() == 0) return;
    const Strided whole(input.shape());
    CopyRolled(context, input, outputs[0].AsTensor(), Resolve(args), 0, whole, whole);
  }

 private:
  Shifts Resolve(const Args& args) const {
    const Shape& shape = args.shape(input_);
    std::vector<int64_t> dims;
    if (args.Has(dims_)) {
      dims = args[dims_].AsInts();
    } else {
      for (int axis = 0; axis < shape.rank(); ++axis) dims.push_back(axis);
    }
    Shifts total{};
    for (int64_t dim : dims) {
      const int axis = NormalizeAxis(dim, shape.rank());
      const int64_t extent = shape.rank() == 0 ? 1 : shape[axis];
      int64_t& shift = total[static_cast<size_t>(axis)];
      if (extent > 0) shift = (shift + (back_ ? extent - extent / 2 : extent / 2)) % extent;
    }
    return total;
  }

  bool back_;
  int input_, dims_;
};

void AddFftShift(LayerRegistry& registry, const char* type, const char* doc, bool back) {
  registry.Add(
      OperatorSchema({type}, doc).Tensor("input", kAllDTypes).Ints("dim").Nullable(),
      [back](const LayerInit& init) { return std::make_unique<FftShiftLayer>(init, back); });
}

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
  AddFftShift(registry, "aten::fft_fftshift",
              "Moves frequency 0 from the front into the middle of the axes", false);
  AddFftShift(registry, "aten::fft_ifftshift",
              "Moves frequency 0 from the middle to the front of the axes", true);
}
