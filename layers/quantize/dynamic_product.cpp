// SPDX-License-Identifier: MIT
#include "layers/quantize/dynamic_product.h"

#include <algorithm>
#include <cmath>

#include "core/checked.h"

namespace oort {
namespace {

/// Numbers that one thread looks at before another one is worth waking.
constexpr int64_t kGrain = 16384;
/// What the bytes of asymmetric rows are less, where they are counted as i8.
constexpr int32_t kSignedShift = 128;

}  // namespace

RowQuantizer QuantizerOfRow(const RowRange& range, bool symmetric) {
  RowQuantizer row;
  if (symmetric) {
    row.scale = std::max(-range.low, range.high) / 127;
    row.least = -127;
    row.most = 127;
  } else {
    row.scale = (range.high / 255) - (range.low / 255);
  }
  // Nothing that a product could show is lost of numbers so small.
  if (row.scale < 0x1p-100f) row.scale = 1;
  if (!symmetric) {
    const float zero = std::nearbyint(-range.low / row.scale);
    row.zero_point = zero >= 0 && zero <= 255 ? static_cast<int32_t>(zero) : 0;
  }
  return row;
}

DynamicProduct::DynamicProduct(Isa isa, const Tensor& weight, const Tensor& scales, bool symmetric)
    : kernels_(DynamicKernelsFor(isa)),
      bytes_(QuantizeKernelsFor(isa)),
      symmetric_(symmetric),
      // Bytes are counted as the units want them, which changes no result.
      signed_(symmetric || IntegerKernelsFor(isa).staged_signed) {
  if (weight.rank() != 2 || weight.elements() == 0 || weight.dtype() != DType::kI8 ||
      scales.shape() != Shape{weight.dim(0)} || scales.dtype() != DType::kF32) {
    throw Error(ErrorCode::kInvalidModel,
                "expected a weight (out, in) of i8 and a scale for each output, got " +
                    weight.ToString() + " and " + scales.ToString());
  }
  out_ = weight.dim(0);
  in_ = weight.dim(1);
  for (const float scale : scales.span<float>()) CheckedScale(static_cast<double>(scale));
  IntegerScales numbers;  // of rows whose scale is 1; each row is given its own behind them
  numbers.result = DType::kF32;
  // Integers of asymmetric rows are those of u8 wherever they are multiplied: only so they become
  // the same floats.
  if (signed_ && !symmetric_) numbers.input.zero_point = -kSignedShift;
  product_ = std::make_unique<IntegerProduct>(isa, weight.Reshaped({out_, in_, 1, 1}), scales,
                                              Tensor(), IntegerForm(), numbers);
  one_row_ = ConvParams({1, 1}, {0, 0}, {1, 1}, 1).Geometry({1, in_, 1, 1}, {out_, in_, 1, 1});
  SumWeights(weight, scales);
  zeros_.assign(static_cast<size_t>(out_), 0);
}

void DynamicProduct::SumWeights(const Tensor& weight, const Tensor& scales) {
  for (int64_t c = 0; c < out_; ++c) {
    int64_t sum = 0;
    for (int64_t k = 0; k < in_; ++k) sum += weight.data<int8_t>()[c * in_ + k];
    sums_.push_back(static_cast<float>(static_cast<double>(sum) *
                                       static_cast<double>(scales.data<float>()[c])));
  }
}

/// That of one row with more of them: a step of a small recurrent layer takes no longer than it
/// takes to check a window.
ConvGeometry DynamicProduct::Geometry(int64_t rows) const {
  ConvGeometry g = one_row_;
  g.axes[2].in = g.axes[2].out = rows;
  g.output = {1, out_, 1, rows};
  return g;
}

double DynamicProduct::multiplications(int64_t rows) const {
  return Geometry(rows).multiplications();
}

DynamicProduct::Places DynamicProduct::PlacesOf(const ConvGeometry& g, bool apart) const {
  const int64_t rows = g.out_plane();
  const auto bytes = [&](int64_t width) {
    return AlignUp(static_cast<size_t>(CheckedMultiply(rows, width)), 64);
  };
  Places places;
  places.quantizers = bytes(in_);
  places.products =
      CheckedAdd(places.quantizers, bytes(static_cast<int64_t>(sizeof(RowQuantizer))));
  const int64_t width = apart ? CheckedMultiply(out_, static_cast<int64_t>(sizeof(float))) : 0;
  places.scratch = CheckedAdd(places.products, bytes(width));
  places.all = CheckedAdd(places.scratch, product_->Scratch(g, signed_));
  return places;
}

size_t DynamicProduct::Workspace(int64_t rows, bool apart) const {
  return PlacesOf(Geometry(rows), apart).all;
}

void DynamicProduct::QuantizeRows(const Context& context, int64_t rows, RowsOf<const float> x,
                                  std::byte* bytes, RowQuantizer* quantizers) const {
  const int32_t shift = signed_ && !symmetric_ ? kSignedShift : 0;
  context.ParallelFor(rows, kGrain / in_ + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const RowQuantizer row = QuantizerOfRow(kernels_.range(x[i], in_), symmetric_);
      bytes_.quantize(x[i], in_, 1 / row.scale, row.zero_point - shift, row.least - shift,
                      row.most - shift, bytes + i * in_);
      quantizers[i] = row;
    }
  });
}

void DynamicProduct::Run(int threads, int64_t rows, RowsOf<const float> x, const float* bias,
                         RowsOf<float> y, std::byte* workspace,
                         const ActivationSpec& activation) const {
  if (rows == 0) return;
  const bool apart = y.step != out_ && rows > 1;
  const ConvGeometry g = Geometry(rows);
  const Places places = PlacesOf(g, apart);
  const Context context(threads, {workspace + places.scratch, places.all - places.scratch});
  auto* quantizers = reinterpret_cast<RowQuantizer*>(workspace + places.quantizers);
  QuantizeRows(context, rows, x, workspace, quantizers);
  auto* products = apart ? reinterpret_cast<float*>(workspace + places.products) : y.data;
  product_->Run(context, g, {.input = workspace, .input_signed = signed_, .output = products});
  if (bias == nullptr) bias = zeros_.data();
  context.ParallelFor(rows, kGrain / out_ + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const RowQuantizer& row = quantizers[i];
      kernels_.finish(products + i * out_, out_, row.scale, static_cast<float>(row.zero_point),
                      sums_.data(), bias, y[i]);
      if (activation.kind == Activation::kNone) continue;
      kernels_.activate(activation, y[i], static_cast<int>(out_));
    }
  });
}

}  // namespace oort
