// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "graph/dtype_names.h"
#include "layers/shape/device_shapes.h"
#include "layers/shape/strided_copy.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

/// The columns of row `row` that a triangle holds; its edge is diagonal number `diagonal`.
struct TriangleSpan {
  TriangleSpan(bool upper, int64_t row, int64_t columns, int64_t diagonal) {
    const int64_t edge = std::clamp<int64_t>(
        AddOverflows(row, diagonal + (upper ? 0 : 1), &begin) ? columns : begin, 0, columns);
    begin = upper ? edge : 0;
    end = upper ? columns : edge;
  }
  int64_t begin, end;
};

/// A diagonal so far out that adding to it cannot overflow; it makes no difference.
int64_t ClampDiagonal(int64_t diagonal) {
  constexpr int64_t kFar = int64_t{1} << 62;
  return std::clamp(diagonal, -kFar, kFar);
}

/// The triangles of a stack of matrices; what is not in them is 0.
class TriangleLayer final : public Layer {
 public:
  TriangleLayer(const LayerInit& init, bool upper)
      : upper_(upper), input_(init.Arg("input")), diagonal_(init.Arg("diagonal")) {}

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& x = args.tensor(input_);
    if (x.rank() < 2) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a rank of at least 2, got shape " + x.shape().ToString());
    }
    return {Tensor::Meta(x.dtype(), x.shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(input_);
    Tensor& y = outputs[0].AsTensor();
    const int64_t rows = x.dim(-2), columns = x.dim(-1);
    if (x.elements() == 0) return;
    const int64_t diagonal = ClampDiagonal(args[diagonal_].AsInt());
    if (context.stream() != nullptr) {
      return TriangleOnDevice(*context.stream(), upper_, diagonal, x, y);
    }
    const size_t item = ItemSize(x.dtype());
    context.ParallelFor(x.elements() / columns, 16384 / columns + 1,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            const TriangleSpan span(upper_, i % rows, columns, diagonal);
                            const auto at = [&](int64_t column) {
                              return static_cast<size_t>(i * columns + column) * item;
                            };
                            std::memset(y.raw() + at(0), 0, at(span.begin) - at(0));
                            if (x.raw() != y.raw()) {
                              std::memcpy(y.raw() + at(span.begin), x.raw() + at(span.begin),
                                          at(span.end) - at(span.begin));
                            }
                            std::memset(y.raw() + at(span.end), 0, at(columns) - at(span.end));
                          }
                        });
  }

  std::vector<Reuse> Reuses(const Args&) const override {
    return {{Reuse::kInPlace, input_, 0, 0}};
  }

 private:
  bool upper_;
  int input_, diagonal_;
};

/// The rows and the columns of the elements of a triangle.
class TriangleIndicesLayer final : public Layer {
 public:
  TriangleIndicesLayer(const LayerInit& init, bool upper)
      : upper_(upper),
        row_(init.Arg("row")),
        column_(init.Arg("col")),
        offset_(init.Arg("offset")) {
    const Value& dtype = init.Constant("dtype");
    if (!dtype.IsNone() && ParseTorchDType(dtype) != DType::kI64) {
      throw Error(ErrorCode::kUnsupported, "gives indices of dtype i64 only");
    }
  }

  std::vector<Value> Infer(const Args& args) const override {
    if (!args[row_].IsConcrete() || !args[column_].IsConcrete() || !args[offset_].IsConcrete()) {
      return {Value::Deferred()};
    }
    return {Tensor::Meta(DType::kI64, {2, Count(args)})};
  }

  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    const int64_t count = Count(args);
    Tensor& output = OutputTensor(outputs[0], DType::kI64, {2, count});
    int64_t* rows = output.data<int64_t>();
    int64_t* columns = rows + count;
    const int64_t diagonal = ClampDiagonal(args[offset_].AsInt());
    for (int64_t row = 0; row < args[row_].AsInt(); ++row) {
      const TriangleSpan span(upper_, row, args[column_].AsInt(), diagonal);
      for (int64_t column = span.begin; column < span.end; ++column) {
        *rows++ = row;
        *columns++ = column;
      }
    }
  }

 private:
  int64_t Count(const Args& args) const {
    const int64_t rows = args[row_].AsInt(), columns = args[column_].AsInt();
    // The elements are counted row by row, so a damaged file must not ask for too many rows.
    constexpr int64_t kMostRows = int64_t{1} << 24;
    if (rows < 0 || columns < 0 || rows > kMostRows) {
      throw Error(ErrorCode::kInvalidArgument, "expected a matrix, got " + std::to_string(rows) +
                                                   " by " + std::to_string(columns));
    }
    const int64_t diagonal = ClampDiagonal(args[offset_].AsInt());
    int64_t count = 0;
    for (int64_t row = 0; row < rows; ++row) {
      const TriangleSpan span(upper_, row, columns, diagonal);
      count = CheckedAdd(count, span.end - span.begin);
    }
    return count;
  }

  bool upper_;
  int row_, column_, offset_;
};

template <typename L>
LayerCreator CreateTriangle(bool upper) {
  return [upper](const LayerInit& init) { return std::make_unique<L>(init, upper); };
}

}  // namespace
}  // namespace oort

OORT_LAYERS(triangle) {
  using namespace oort;
  for (const bool upper : {false, true}) {
    const std::string name = upper ? "triu" : "tril", side = upper ? "upper" : "lower";
    registry.Add(OperatorSchema({"torch." + name, "aten::" + name},
                                "The " + side + " triangles of matrices, 0 elsewhere")
                     .Tensor("input", kAllDTypes)
                     .Int("diagonal", 0)
                     .Dynamic(),
                 CreateTriangle<TriangleLayer>(upper));
    registry.Add(OperatorSchema({"torch." + name + "_indices", "aten::" + name + "_indices"},
                                "Rows and columns of the elements of the " + side + " triangle")
                     .Int("row")
                     .Dynamic()
                     .Int("col")
                     .Dynamic()
                     .Int("offset", 0)
                     .Dynamic()
                     .DTypeName("dtype")
                     .Nullable()
                     .Ignored("layout")
                     .Ignored("device")
                     .Ignored("pin_memory"),
                 CreateTriangle<TriangleIndicesLayer>(upper));
  }
}
