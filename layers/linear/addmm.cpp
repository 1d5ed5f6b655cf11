// SPDX-License-Identifier: MIT
#include <type_traits>

#include "core/dispatch.h"
#include "core/wrapping.h"
#include "layers/composite/float_dtypes.h"
#include "layers/linear/matmul_layer.h"

namespace oort {
namespace {

/// An operand that broadcasts to the rows of a result.
template <typename T>
class BroadcastRows {
 public:
  BroadcastRows(const Tensor& tensor, const Shape& result) : data_(tensor.data<T>()) {
    const Shape& own = tensor.shape();
    int64_t scale = 1;
    for (int axis = own.rank() - 1; axis >= 0; --axis) {
      const int at = axis + result.rank() - own.rank();
      strides_[static_cast<size_t>(at)] = own[axis] == 1 ? 0 : scale;
      scale *= own[axis];
    }
    last_ = strides_[static_cast<size_t>(result.rank() - 1)];
  }
  /// Start of row `row` of the result, whose elements are `step()` apart.
  const T* Row(const Shape& result, int64_t row) const {
    int64_t offset = 0;
    for (int axis = result.rank() - 2; axis >= 0; --axis) {
      offset += row % result[axis] * strides_[static_cast<size_t>(axis)];
      row /= result[axis];
    }
    return data_ + offset;
  }
  int64_t step() const { return last_; }

 private:
  const T* data_;
  std::array<int64_t, Shape::kMaxRank> strides_{};
  int64_t last_ = 0;
};

/// alpha * y + beta * x; integers wrap, and the factors are integers then.
template <typename T>
class AddmmEnd {
 public:
  AddmmEnd(double alpha, double beta) : alpha_(Factor(alpha)), beta_(Factor(beta)) {}
  bool reads_input() const { return beta_ != U{0}; }
  T operator()(T y) const { return static_cast<T>(static_cast<U>(alpha_ * static_cast<U>(y))); }
  T operator()(T y, T x) const {
    return static_cast<T>(static_cast<U>(alpha_ * static_cast<U>(y) + beta_ * static_cast<U>(x)));
  }

 private:
  using U = Wrapping<T>;
  static U Factor(double factor) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<U>(static_cast<int64_t>(factor));
    } else if constexpr (kIsComplex<T>) {
      return U(static_cast<typename T::value_type>(factor));
    } else {
      return static_cast<U>(factor);
    }
  }
  U alpha_, beta_;
};

/// output = alpha * output + beta * input, on a product that is there already.
template <typename T>
void Combine(const Context& context, const AddmmEnd<T>& combine, const Tensor& input,
             Tensor& output) {
  const Shape& shape = output.shape();
  const int64_t columns = shape[shape.rank() - 1];
  const BroadcastRows<T> rows(input, shape);
  context.ParallelFor(
      output.elements() / columns, 16384 / columns + 1, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          T* y = output.data<T>() + row * columns;
          if (!combine.reads_input()) {  // what is in the input does not count, not even NaN
            for (int64_t i = 0; i < columns; ++i) y[i] = combine(y[i]);
            continue;
          }
          const T* x = rows.Row(shape, row);
          for (int64_t i = 0; i < columns; ++i) y[i] = combine(y[i], x[i * rows.step()]);
        }
      });
}

/// beta * input + alpha * (a @ b)
class Addmm final : public MatmulLayer {
 public:
  Addmm(const LayerInit& init, const char* a, const char* b, int rank)
      : MatmulLayer(init, a, b, GemmKernelsFor(init.isa())),
        input_(init.Arg("input")),
        rank_(rank),
        alpha_(init.Float("alpha")),
        beta_(init.Float("beta")) {}

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor &x = a(args), &y = b(args), &input = args.tensor(input_);
    if (x.rank() != rank_ || y.rank() != rank_ || (rank_ == 3 && x.dim(0) != y.dim(0))) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected two operands of rank " + std::to_string(rank_) + ", got " +
                      x.shape().ToString() + " and " + y.shape().ToString());
    }
    CheckProductDTypes(x, y);
    CheckProductDTypes(x, input);
    CheckFactors(x.dtype(), alpha_, beta_);
    const Shape output = ProductOf(args).output;
    if (!(BroadcastShapes(input.shape(), output) == output)) {
      throw Error(ErrorCode::kInvalidArgument, "expected an input that broadcasts to " +
                                                   output.ToString() + ", got " +
                                                   input.shape().ToString());
    }
    return {Tensor::Meta(x.dtype(), output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const int64_t columns = ProductOf(args).n;
    const Tensor& input = args.tensor(input_);
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    ProductEnd end;
    const bool bias = input.dtype() == DType::kF32 && alpha_ == 1 && beta_ == 1 &&
                      input.elements() == columns && input.dim(-1) == columns;
    if (bias) end.column_bias = input.data<float>();
    Multiply(context, args, end, output);
    if (bias) return;
    VisitDType(input.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (!kIsHalf<T> && !std::is_same_v<T, bool>) {
        Combine(context, AddmmEnd<T>(alpha_, beta_), input, output);
      }
    });
  }

 private:
  int input_, rank_;
  double alpha_, beta_;
};

OperatorSchema Declare(const char* type, const char* a, const char* b, const char* doc) {
  return OperatorSchema({type}, doc)
      .Tensor("input", kProductDTypes)
      .Tensor(a, kProductDTypes)
      .Tensor(b, kProductDTypes)
      .Float("beta", 1)
      .Float("alpha", 1);
}

}  // namespace
}  // namespace oort

OORT_LAYERS(addmm) {
  using namespace oort;
  const auto add = [&](const char* type, const char* a, const char* b, int rank, const char* doc) {
    const OperatorSchema schema = Declare(type, a, b, doc);
    registry.Add(schema, WithHalves(schema, [=](const LayerInit& init) {
                   return std::make_unique<Addmm>(init, a, b, rank);
                 }));
  };
  add("torch.addmm", "mat1", "mat2", 2, "beta * input + alpha * (mat1 @ mat2)");
  add("torch.baddbmm", "batch1", "batch2", 3,
      "beta * input + alpha * (batch1 @ batch2), matrix by matrix");
}
