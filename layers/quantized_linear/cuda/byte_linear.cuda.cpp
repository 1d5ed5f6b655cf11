// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cuda/byte_linear.h"

#include <algorithm>

#include "core/checked.h"
#include "cuda/blas.h"
#include "cuda/memory.h"
#include "layers/quantized_linear/byte_rows.h"
#include "layers/quantized_linear/cuda/byte_gemv.h"
#include "layers/quantized_linear/cuda/byte_matrix.h"
#include "layers/quantized_linear/cuda/dequantize.h"
#include "layers/quantized_linear/cuda/device_matrix.h"
#include "layers/quantized_linear/quantized_linear_spec.h"

namespace oort {
namespace {

class CudaByteLinear final : public Layer {
 public:
  explicit CudaByteLinear(const LayerInit& init)
      : spec_(init),
        device_(init.device()),
        kind_(*ByteKindNamed(init.String(kActivationsParam))),
        activation_(cuda::ActivationBehind(spec_, init.op().inputs.size() > 1)),
        matrix_(spec_.stored(), spec_.gated(), kind_, device_),
        bias_(cuda::PackBiases(spec_.stored(), spec_.gated(), spec_.biases(), device_)) {
    if (spec_.norm().defined()) norm_ = cuda::ToDevice(spec_.norm(), device_);
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
    IsFew(rows) ? RunFew(context, args, outputs, rows) : RunMany(context, args, outputs, rows);
  }

  size_t Workspace(const Args& args, int) const override {
    const int64_t rows = spec_.Rows(args);
    return rows == 0 ? 0 : Layout(*this, rows).total;
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
  const cuda::ByteWeights& weights() const { return matrix_.weights(); }
  /// Of the packed results.
  int64_t width() const { return int64_t{weights().strips} * cuda::kStripRows; }
  /// Whether a product may leave its sums where the results will be.
  bool InPlace() const {
    return !spec_.gated() && spec_.parts() == 1 && spec_.part_rows(0) == width();
  }

  /// Scratch.
  struct Layout {
    size_t x = 0, factors = 0, sums = 0, blas = 0, total = 0;
    Layout(const CudaByteLinear& layer, int64_t rows) {
      const auto take = [&](size_t bytes) {
        const size_t at = total;
        total = CheckedAdd(total, CheckedAdd(bytes, size_t{511}) / 512 * 512);
        return at;
      };
      const auto count = static_cast<size_t>(rows);
      const bool few = IsFew(rows);
      const auto row_bytes = static_cast<size_t>(layer.weights().row_bytes);
      x = take(CheckedMultiply(count, row_bytes * (few ? 2 : 1)));
      factors = take(count * sizeof(float));
      if (few) return;
      if (!layer.InPlace()) {
        sums = take(CheckedMultiply(count, static_cast<size_t>(layer.width()) * sizeof(float)));
      }
      blas = take(layer.MatmulOf(rows)->workspace());
    }
  };

  /// Rows of x in the numbers of the product.
  void Cast(const Context& context, const Args& args, int64_t rows, cuda::RowNumbers numbers,
            const Layout& layout) const {
    cuda::RowCast cast{args.tensor(spec_.input()).data<float>(), rows, spec_.columns(),
                       weights().row_bytes};
    if (norm_.defined()) cast.gain = norm_.data<float>();
    cast.epsilon = static_cast<float>(spec_.norm_epsilon());
    cast.numbers = numbers;
    cuda::CastRows(*context.stream(), cast, context.workspace() + layout.x,
                   reinterpret_cast<float*>(context.workspace() + layout.factors));
  }

  void RunFew(const Context& context, const Args& args, std::span<Value> outputs,
              int64_t rows) const {
    const Layout layout(*this, rows);
    Cast(context, args, rows, cuda::RowNumbers::kF16, layout);
    const float* const addend = spec_.epilogue().addend(args);
    for (int64_t first = 0; first < rows; first += cuda::kByteGemvRows) {
      cuda::ByteGemv few;
      few.weights = weights();
      few.x = context.workspace() + layout.x + first * weights().row_bytes * 2;
      few.factors = reinterpret_cast<float*>(context.workspace() + layout.factors) + first;
      cuda::GemvProduct& product = few.product;
      product.rows = static_cast<int>(std::min<int64_t>(rows - first, cuda::kByteGemvRows));
      if (bias_.defined()) product.bias = bias_.data<float>();
      if (addend != nullptr) product.addend = addend + first * spec_.part_rows(0);
      product.activation = activation_;
      product.gated = spec_.gated();
      product.parts = spec_.results();
      for (int i = 0; i < product.parts; ++i) {
        product.y[i] = ResultOf(outputs, i) + first * spec_.part_rows(i);
        product.part_rows[i] = static_cast<int>(spec_.part_rows(i));
      }
      cuda::RunByteGemv(*context.stream(), few);
    }
  }

  void RunMany(const Context& context, const Args& args, std::span<Value> outputs,
               int64_t rows) const {
    const cuda::Stream& stream = *context.stream();
    const Layout layout(*this, rows);
    const bool whole = kind_ == ByteKind::kInt8;
    Cast(context, args, rows, whole ? cuda::RowNumbers::kInt8 : cuda::RowNumbers::kFp8, layout);
    std::byte* const scratch = context.workspace();
    float* const sums =
        InPlace() ? ResultOf(outputs, 0) : reinterpret_cast<float*>(scratch + layout.sums);
    MatmulOf(rows)->Run(stream, scratch + layout.x, weights().data, sums, nullptr,
                        scratch + layout.blas);
    cuda::RowSums all{sums, 1, rows, width()};
    all.factors = reinterpret_cast<float*>(scratch + layout.factors);
    all.scales = weights().scales;
    all.whole = whole;
    if (bias_.defined()) all.bias = bias_.data<float>();
    all.activation = activation_;
    if (spec_.gated()) {
      return cuda::GateRows(stream, all, spec_.part_rows(0), ResultOf(outputs, 0));
    }
    cuda::RowParts parts;
    parts.count = spec_.parts();
    parts.addend = spec_.epilogue().addend(args);
    for (int i = 0; i < parts.count; ++i) {
      parts.y[i] = ResultOf(outputs, i);
      parts.width[i] = spec_.part_rows(i);
    }
    cuda::SplitRows(stream, all, parts);
  }

  std::shared_ptr<const cuda::Matmul> MatmulOf(int64_t rows) const {
    cuda::Product product;
    product.m = rows;
    product.n = width();
    product.k = weights().row_bytes;
    product.transpose_b = true;
    product.input = DType::kI8;
    product.fp8 = kind_ == ByteKind::kFp8;
    product.output = product.fp8 ? DType::kF32 : DType::kI32;
    return cuda::Matmul::For(product, device_.index);
  }

  static float* ResultOf(std::span<Value> outputs, int part) {
    return outputs[static_cast<size_t>(part)].AsTensor().data<float>();
  }

  QuantizedLinearSpec spec_;
  Device device_;
  ByteKind kind_;
  Activation activation_;
  cuda::ByteMatrix matrix_;
  Tensor bias_, norm_;
};

}  // namespace

bool MultipliesBytes(const LayerInit& init) {
  if (!ByteKindNamed(init.String(kActivationsParam))) return false;
  const QuantizedLinearSpec spec(init);
  return std::ranges::all_of(spec.stored(), BecomesBytes);
}

std::unique_ptr<Layer> MakeByteLinear(const LayerInit& init) {
  return std::make_unique<CudaByteLinear>(init);
}

}  // namespace oort
