// SPDX-License-Identifier: MIT
// Operators whose outputs are views of their input: each declares the views and nothing else.
#pragma once

#include <vector>

#include "core/scratch_vector.h"
#include "layers/shape/strided.h"
#include "oort/layer.h"

namespace oort {

/// One output: the elements of the input that it holds, in row-major order, under its shape.
struct StridedOutput {
  StridedOutput(const Strided& elements)  // NOLINT: implicit, the usual case
      : view(elements), shape(elements.shape()) {}
  StridedOutput(const Strided& elements, const Shape& result) : view(elements), shape(result) {}
  Strided view;
  Shape shape;
};

/// Where every view is dense the outputs share the input's memory; otherwise they are copied.
class StridedLayer : public Layer {
 public:
  /// The data comes from the argument called "input", "self" or "tensor"; of "other" only the
  /// shape is read.
  explicit StridedLayer(const LayerInit& init);

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override;
  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override;
  std::vector<Reuse> Reuses(const Args& args) const override;

 protected:
  /// All outputs in order; called only when every argument that matters is known.
  virtual ScratchVector<StridedOutput> Views(const Args& args) const = 0;
  /// The dtype of the outputs.
  virtual DType ResultType(DType input) const { return input; }

  const Shape& input_shape(const Args& args) const { return args.shape(input_); }

 private:
  bool IsKnown(const Args& args) const;
  int input_;
  int other_;
  size_t output_count_;
};

/// A view under another shape of the same number of elements.
StridedOutput Reshaped(const Shape& from, const Shape& to);

/// The tensor that an output holds; one that was deferred is allocated first.
Tensor& OutputTensor(Value& output, DType dtype, const Shape& shape);

/// Axes in [-rank, rank) as axes in [0, rank), each at most once. None or an empty list gives none.
ScratchVector<int> NormalizeAxes(const Value& axes, int rank);

}  // namespace oort
