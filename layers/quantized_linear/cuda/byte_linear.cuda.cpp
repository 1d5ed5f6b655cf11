// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cuda/byte_linear.h"

#include <algorithm>

#include "core/checked.h"
#include "cuda/blas.h"
#include "cuda/memory.h"
#include "layers/quantized_linear/cuda/byte_gemv.h"
#include "layers/quantized_linear/cuda/byte_matrix.h"
#include "layers/quantized_linear/cuda/byte_product.h"
#include "layers/quantized_linear/cuda/device_matrix.h"

namespace oort {
namespace {

class CudaByteLinear final : public Layer {
 public:
  explicit CudaByteLinear(const LayerInit& init)
      : spec_(init),
        matrix_(spec_.stored(), spec_.gated(), *ByteKindOf(init), init.device()),
        bias_(cuda::PackBiases(spec_.stored(), spec_.gated(), spec_.biases(), init.device())) {
    many_.spec = &spec_;
    many_.weights = matrix_.weights();
    many_.activation = cuda::ActivationBehind(spec_, init.op().inputs.size() > 1);
    many_.device = init.device().index;
    if (bias_.defined()) many_.bias = bias_.data<float>();
    if (spec_.norm().defined()) {
      norm_ = cuda::ToDevice(spec_.norm(), init.device());
      many_.norm = norm_.data<float>();
    }
    spec_.LetGo();
  }

  LayerTraits Traits() const override {
    return {.batch_invariant_rows = cuda::kByteGemvRows,
            .fast_invariant_rows = cuda::kByteGemvRows};
  }

  std::vector<Value> Infer(const Args& args) const override { return spec_.Infer(args); }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const int64_t rows = spec_.Rows(args);
    if (rows == 0) return;
    if (IsFew(rows)) return RunFew(context, args, outputs, rows);
    many_.Run(*context.stream(), args, outputs, context.workspace());
  }

  size_t Workspace(const Args& args, int) const override {
    const int64_t rows = spec_.Rows(args);
    if (rows == 0) return 0;
    return IsFew(rows) ? FactorsAt(rows) + static_cast<size_t>(rows) * sizeof(float)
                       : many_.Workspace(rows);
  }

  bool Packs(int argument) const override { return spec_.Packs(argument); }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    return spec_.Work(args, outputs, matrix_.bytes());
  }

 private:
  /// Whether x keeps 16 bits: such products wait for the weights.
  static bool IsFew(int64_t rows) {
    std::string ignored;  // without cuBLAS it is slower, but it works
    return rows <= cuda::kByteGemvRows || !cuda::HasBlas(&ignored);
  }
  /// Where in the scratch of few rows the units of x stand, behind x in f16.
  size_t FactorsAt(int64_t rows) const {
    return CheckedMultiply(static_cast<size_t>(rows),
                           static_cast<size_t>(matrix_.weights().row_bytes) * 2);
  }

  void RunFew(const Context& context, const Args& args, std::span<Value> outputs,
              int64_t rows) const {
    const cuda::Stream& stream = *context.stream();
    std::byte* const x = context.workspace();
    float* const factors = reinterpret_cast<float*>(x + FactorsAt(rows));
    many_.Cast(stream, args, cuda::RowNumbers::kF16, x, factors);
    const float* const addend = spec_.epilogue().addend(args);
    for (int64_t first = 0; first < rows; first += cuda::kByteGemvRows) {
      cuda::ByteGemv few;
      few.weights = matrix_.weights();
      few.x = x + first * few.weights.row_bytes * 2;
      few.factors = factors + first;
      cuda::GemvProduct& product = few.product;
      product.rows = static_cast<int>(std::min<int64_t>(rows - first, cuda::kByteGemvRows));
      product.bias = many_.bias;
      if (addend != nullptr) product.addend = addend + first * spec_.part_rows(0);
      product.activation = many_.activation;
      product.gated = spec_.gated();
      product.parts = spec_.results();
      for (int i = 0; i < product.parts; ++i) {
        product.y[i] = cuda::DataOf(outputs, i) + first * spec_.part_rows(i);
        product.part_rows[i] = static_cast<int>(spec_.part_rows(i));
      }
      cuda::RunByteGemv(stream, few);
    }
  }

  QuantizedLinearSpec spec_;
  cuda::ByteMatrix matrix_;
  Tensor bias_, norm_;
  cuda::ByteProduct many_;
};

}  // namespace

std::optional<ByteKind> ByteKindOf(const LayerInit& init) {
  const std::optional<ByteKind> kind = ByteKindNamed(init.String(kActivationsParam));
  if (!kind) return std::nullopt;
  const QuantizedLinearSpec spec(init);
  return std::ranges::all_of(spec.stored(), BecomesBytes) ? kind : std::nullopt;
}

std::unique_ptr<Layer> MakeByteLinear(const LayerInit& init) {
  return std::make_unique<CudaByteLinear>(init);
}

}  // namespace oort
