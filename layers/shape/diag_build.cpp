// SPDX-License-Identifier: MIT
// Tensors that hold others on a diagonal.
#include <algorithm>

#include "core/checked.h"
#include "layers/shape/diagonal_view.h"
#include "layers/shape/strided_copy.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

bool AllKnown(const Args& args, int first) {
  for (int i = first; i < args.size(); ++i) {
    if (!args[i].IsConcrete()) return false;
  }
  return true;
}

/// The last axis becomes a diagonal of two new ones, zeros around it.
class DiagEmbedLayer final : public Layer {
 public:
  explicit DiagEmbedLayer(const LayerInit&) {}

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    if (!AllKnown(args, 1)) return {Value::Deferred()};
    return {Tensor::Meta(args.tensor(0).dtype(), Result(args))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(0);
    const Shape shape = Result(args);
    Tensor& output = OutputTensor(outputs[0], input.dtype(), shape);
    ClearBytes(context, output.raw(), output.bytes());
    CopyStrided(context, ItemSize(input.dtype()), input.raw(), Strided(input.shape()), output.raw(),
                DiagonalView(shape, args[1].AsInt(), args[2].AsInt(), args[3].AsInt()));
  }

 private:
  static Shape Result(const Args& args) {
    const Shape& input = args.shape(0);
    const int64_t offset = args[1].AsInt();
    if (input.rank() == 0 || input.rank() >= Shape::kMaxRank || offset == INT64_MIN) {
      throw Error(
          ErrorCode::kInvalidArgument,
          "cannot make a diagonal of shape " + input.ToString() + " at " + std::to_string(offset));
    }
    const int rank = input.rank() + 1;
    const int row = NormalizeAxis(args[2].AsInt(), rank);
    const int column = NormalizeAxis(args[3].AsInt(), rank);
    if (row == column) throw Error(ErrorCode::kInvalidArgument, "expected two axes, got one");
    const int64_t size = CheckedAdd(input[input.rank() - 1], offset < 0 ? -offset : offset);
    Shape shape;
    for (int i = 0, from = 0; i < rank; ++i) {
      shape.Append(i == row || i == column ? size : input[from++]);
    }
    shape.elements();  // throws where the extents multiply to too much
    return shape;
  }
};

/// input with src on a diagonal.
class DiagonalScatterLayer final : public Layer {
 public:
  explicit DiagonalScatterLayer(const LayerInit&) {}

  std::vector<Value> Infer(const Args& args) const override {
    if (!AllKnown(args, 2)) return {Value::Deferred()};
    const Tensor &input = args.tensor(0), &src = args.tensor(1);
    const Shape diagonal = View(args).shape();
    if (src.dtype() != input.dtype() || !(src.shape() == diagonal)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a source of the dtype of the input and "
                  "of shape " +
                      diagonal.ToString() + ", got " + src.ToString());
    }
    return {Tensor::Meta(input.dtype(), input.shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor &input = args.tensor(0), &src = args.tensor(1);
    if (outputs[0].IsDeferred()) Infer(args);  // which could not check it before
    Tensor& output = OutputTensor(outputs[0], input.dtype(), input.shape());
    CopyBytes(context, input.raw(), output.raw(), input.bytes());
    CopyStrided(context, ItemSize(src.dtype()), src.raw(), Strided(src.shape()), output.raw(),
                View(args));
  }

 private:
  static Strided View(const Args& args) {
    return DiagonalView(args.shape(0), args[2].AsInt(), args[3].AsInt(), args[4].AsInt());
  }
};

/// Matrices along the diagonal of one; a vector is a row, a number a matrix of one element.
class BlockDiagLayer final : public Layer {
 public:
  explicit BlockDiagLayer(const LayerInit&) {}

  std::vector<Value> Infer(const Args& args) const override {
    std::vector<const Tensor*> blocks;
    if (!Collect(args, blocks)) return {Value::Deferred()};
    return {Tensor::Meta(blocks.front()->dtype(), Result(blocks))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    std::vector<const Tensor*> blocks;
    Collect(args, blocks);
    const Shape shape = Result(blocks);
    Tensor& output = OutputTensor(outputs[0], blocks.front()->dtype(), shape);
    ClearBytes(context, output.raw(), output.bytes());
    int64_t row = 0, column = 0;
    for (const Tensor* block : blocks) {
      const Shape size = MatrixShape(block->shape());
      CopyStrided(context, ItemSize(block->dtype()), block->raw(), Strided(size), output.raw(),
                  Strided(shape).Sliced(0, row, size[0]).Sliced(1, column, size[1]));
      row += size[0];
      column += size[1];
    }
  }

 private:
  /// False where one is not known yet.
  static bool Collect(const Args& args, std::vector<const Tensor*>& blocks) {
    for (const Value* value : args.variadic()) {
      if (value->IsDeferred()) return false;
      if (!value->IsList()) {
        blocks.push_back(&value->AsTensor());
        continue;
      }
      for (const Value& item : value->AsList()) {
        if (item.IsDeferred()) return false;
        blocks.push_back(&item.AsTensor());
      }
    }
    if (blocks.empty()) throw Error(ErrorCode::kInvalidArgument, "expected at least one tensor");
    return true;
  }

  static Shape MatrixShape(const Shape& shape) {
    if (shape.rank() > 2) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected tensors of at most 2 axes, got shape " + shape.ToString());
    }
    return {shape.rank() == 2 ? shape[0] : 1, shape.rank() == 0 ? 1 : shape[shape.rank() - 1]};
  }

  static Shape Result(const std::vector<const Tensor*>& blocks) {
    Shape sum{0, 0};
    for (const Tensor* block : blocks) {
      const Shape size = MatrixShape(block->shape());
      if (block->dtype() != blocks.front()->dtype()) {
        throw Error(ErrorCode::kUnsupported, "takes tensors of one dtype, got " +
                                                 blocks.front()->ToString() + " and " +
                                                 block->ToString());
      }
      for (int i = 0; i < 2; ++i) sum[i] = CheckedAdd(sum[i], size[i]);
    }
    sum.elements();  // throws where the extents multiply to too much
    return sum;
  }
};

}  // namespace
}  // namespace oort

OORT_LAYERS(diag_build) {
  using namespace oort;
  registry.Add(OperatorSchema({"torch.diag_embed", "aten::diag_embed"},
                              "The last axis as a diagonal of two new ones, zeros around it")
                   .Tensor("input", kAllDTypes)
                   .Int("offset", 0)
                   .Dynamic()
                   .Int("dim1", -2)
                   .Dynamic()
                   .Int("dim2", -1)
                   .Dynamic(),
               Create<DiagEmbedLayer>());
  registry.Add(OperatorSchema({"torch.diagonal_scatter", "aten::diagonal_scatter"},
                              "input with src on a diagonal of two axes")
                   .Tensor("input", kAllDTypes)
                   .Tensor("src", kAllDTypes)
                   .Int("offset", 0)
                   .Dynamic()
                   .Int("dim1", 0)
                   .Dynamic()
                   .Int("dim2", 1)
                   .Dynamic(),
               Create<DiagonalScatterLayer>());
  registry.Add(OperatorSchema({"torch.block_diag", "aten::block_diag"},
                              "Matrices along the diagonal of one, zeros around them")
                   .Tensors("tensors", kAllDTypes),
               Create<BlockDiagLayer>());
}
