// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cuda/byte_product.h"

#include "core/checked.h"

namespace oort::cuda {

/// Scratch.
struct ByteProduct::Layout {
  size_t x = 0, factors = 0, sums = 0, blas = 0, total = 0;

  Layout(const ByteProduct& product, int64_t rows) {
    const auto take = [&](size_t bytes) {
      const size_t at = total;
      total = CheckedAdd(total, CheckedAdd(bytes, size_t{511}) / 512 * 512);
      return at;
    };
    const auto count = static_cast<size_t>(rows);
    x = take(CheckedMultiply(count, static_cast<size_t>(product.weights.row_bytes)));
    factors = take(count * sizeof(float));
    if (!product.InPlace()) {
      sums = take(CheckedMultiply(count, static_cast<size_t>(product.width()) * sizeof(float)));
    }
    blas = take(product.MatmulOf(rows)->workspace());
  }
};

/// Whether sums may stand where the results will be.
bool ByteProduct::InPlace() const {
  return !spec->gated() && spec->parts() == 1 && spec->part_rows(0) == width();
}

std::shared_ptr<const Matmul> ByteProduct::MatmulOf(int64_t rows) const {
  Product product;
  product.m = rows;
  product.n = width();
  product.k = weights.row_bytes;
  product.transpose_b = true;
  product.input = DType::kI8;
  product.fp8 = weights.kind == ByteKind::kFp8;
  product.output = product.fp8 ? DType::kF32 : DType::kI32;
  return Matmul::For(product, device);
}

size_t ByteProduct::Workspace(int64_t rows) const { return Layout(*this, rows).total; }

void ByteProduct::Cast(const Stream& stream, const Args& args, RowNumbers numbers, void* rows,
                       float* factors) const {
  RowCast cast{args.tensor(spec->input()).data<float>(), spec->Rows(args), spec->columns(),
               weights.row_bytes};
  cast.gain = norm;
  cast.epsilon = static_cast<float>(spec->norm_epsilon());
  cast.numbers = numbers;
  CastRows(stream, cast, rows, factors);
}

void ByteProduct::Run(const Stream& stream, const Args& args, std::span<Value> outputs,
                      std::byte* scratch) const {
  const int64_t rows = spec->Rows(args);
  const Layout layout(*this, rows);
  const bool whole = weights.kind == ByteKind::kInt8;
  float* const factors = reinterpret_cast<float*>(scratch + layout.factors);
  Cast(stream, args, whole ? RowNumbers::kInt8 : RowNumbers::kFp8, scratch + layout.x, factors);
  float* const sums =
      InPlace() ? DataOf(outputs, 0) : reinterpret_cast<float*>(scratch + layout.sums);
  MatmulOf(rows)->Run(stream, scratch + layout.x, weights.data, sums, nullptr,
                      scratch + layout.blas);
  RowSums all{sums, 1, rows, width()};
  all.factors = factors;
  all.scales = weights.scales;
  all.whole = whole;
  all.bias = bias;
  all.activation = activation;
  if (spec->gated()) return GateRows(stream, all, spec->part_rows(0), DataOf(outputs, 0));
  RowParts parts;
  parts.count = spec->parts();
  parts.addend = spec->epilogue().addend(args);
  for (int i = 0; i < parts.count; ++i) {
    parts.y[i] = DataOf(outputs, i);
    parts.width[i] = spec->part_rows(i);
  }
  SplitRows(stream, all, parts);
}

}  // namespace oort::cuda
