// SPDX-License-Identifier: MIT
#include <type_traits>

#include "core/dispatch.h"
#include "layers/shape/strided.h"
#include "oort/layer.h"

namespace oort {
namespace {

/// a * b - c * d; integers wrap as in torch, 16-bit floats are computed in f32.
template <typename T>
T Determinant(T a, T b, T c, T d) {
  if constexpr (kIsHalf<T>) {
    return T(Determinant(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c),
                         static_cast<float>(d)));
  } else if constexpr (std::is_integral_v<T>) {
    const auto wide = [](T value) { return static_cast<uint64_t>(value); };
    return static_cast<T>(wide(a) * wide(b) - wide(c) * wide(d));
  } else {
    return a * b - c * d;
  }
}

/// Where vector `index` of a view begins; its elements lie along `axis`.
int64_t VectorOffset(const Strided& view, int axis, int64_t index) {
  int64_t offset = view.offset();
  for (int i = view.rank(); i-- > 0;) {
    if (i == axis) continue;
    offset += index % view[i].extent * view[i].stride;
    index /= view[i].extent;
  }
  return offset;
}

class Cross final : public Layer {
 public:
  explicit Cross(const LayerInit& init) : dim_(init.Constant("dim")) {}

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor &a = args.tensor(0), &b = args.tensor(1);
    if (a.rank() != b.rank() || a.dtype() != b.dtype()) {
      Throw("expected two tensors of one rank and dtype, got ", args);
    }
    const int axis = AxisOf(a.shape());
    if (axis < 0 || a.rank() == 0 || a.shape()[axis] != 3 || b.shape()[axis] != 3) {
      Throw("expected an axis of 3 elements, got ", args);
    }
    const Shape output = BroadcastShapes(a.shape(), b.shape());
    output.elements();
    return {Tensor::Meta(a.dtype(), output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    const Shape& shape = output.shape();
    const int axis = AxisOf(args.shape(0));
    const Strided a = Strided(args.shape(0)).Broadcast(shape);
    const Strided b = Strided(args.shape(1)).Broadcast(shape), c(shape);
    VisitDType(output.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (!std::is_same_v<T, bool>) {
        context.ParallelFor(output.elements() / 3, 2048, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const T* x = args.tensor(0).data<T>() + VectorOffset(a, axis, i);
            const T* y = args.tensor(1).data<T>() + VectorOffset(b, axis, i);
            T* z = output.data<T>() + VectorOffset(c, axis, i);
            const int64_t dx = a[axis].stride, dy = b[axis].stride, dz = c[axis].stride;
            z[0] = Determinant(x[dx], y[2 * dy], x[2 * dx], y[dy]);
            z[dz] = Determinant(x[2 * dx], y[0], x[0], y[2 * dy]);
            z[2 * dz] = Determinant(x[0], y[dy], x[dx], y[0]);
          }
        });
      }
    });
  }

 private:
  [[noreturn]] static void Throw(const char* message, const Args& args) {
    throw Error(ErrorCode::kInvalidArgument,
                message + args.tensor(0).ToString() + " and " + args.tensor(1).ToString());
  }

  /// Without a dim it is the first axis of three elements; -1 if there is none.
  int AxisOf(const Shape& shape) const {
    if (!dim_.IsNone()) return NormalizeAxis(dim_.AsInt(), shape.rank());
    for (int i = 0; i < shape.rank(); ++i) {
      if (shape[i] == 3) return i;
    }
    return -1;
  }

  Value dim_;
};

constexpr DTypeSet kDTypes = kFloats | kIntegers | DType::kC64 | DType::kC128;

}  // namespace
}  // namespace oort

OORT_LAYERS(cross) {
  using namespace oort;
  const char* doc = "The cross products of vectors of three elements along one axis";
  registry.Add(OperatorSchema({"torch.cross"}, doc)
                   .Tensor("input", kDTypes)
                   .Tensor("other", kDTypes)
                   .Int("dim")
                   .Nullable(),
               Create<Cross>());
  registry.Add(OperatorSchema({"torch.linalg.cross", "aten::linalg_cross"}, doc)
                   .Tensor("input", kDTypes)
                   .Tensor("other", kDTypes)
                   .Int("dim", -1),
               Create<Cross>());
}
