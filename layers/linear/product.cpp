// SPDX-License-Identifier: MIT
#include "layers/linear/product.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <type_traits>

#include "core/checked.h"
#include "layers/linear/blas_product.h"

namespace oort {
namespace {

Shape Leading(const Shape& shape, int axes) {
  return Shape(shape.dims().first(static_cast<size_t>(axes)));
}

/// Integers wrap as in torch, so they are multiplied without a sign.
template <typename T>
using RowWrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                                std::type_identity<T>>::type;

template <typename T>
void MultiplyRow(const T* a, const T* b, int64_t n, int64_t k, T* c) {
  using U = RowWrapping<T>;
  std::fill_n(c, n, T{0});
  for (int64_t p = 0; p < k; ++p) {
    const U factor = static_cast<U>(a[p]);
    for (int64_t j = 0; j < n; ++j) {
      const auto term = static_cast<U>(factor * static_cast<U>(b[p * n + j]));
      c[j] = static_cast<T>(static_cast<U>(static_cast<U>(c[j]) + term));
    }
  }
}

/// A stack times one matrix is one tall product.
bool IsTall(const Product& product) {
  return product.b_batch.elements() == 1 && product.a_batch.elements() == product.count();
}

/// Whether BLAS has computed it.
template <typename T>
bool RunByBlas(const Context& context, const Product& product, const Tensor& a, const Tensor& b,
               Tensor& output) {
  const int64_t n = product.n, k = product.k;
  const int64_t m = IsTall(product) ? product.m * product.count() : product.m;
  const BlasProduct<T> blas{.m = m,
                            .n = n,
                            .k = k,
                            .count = IsTall(product) ? 1 : product.count(),
                            .a_step = k,
                            .b_step = n,
                            .c_step = n};
  if (!blas.IsWorthIt()) return false;
  const T *a_data = a.data<T>(), *b_data = b.data<T>();
  T* c_data = output.data<T>();
  blas.Run(context.threads(), [&](int64_t i) -> typename BlasProduct<T>::Operands {
    return {a_data + StackIndex(product.batch, product.a_batch, i) * m * k,
            b_data + StackIndex(product.batch, product.b_batch, i) * k * n, c_data + i * m * n};
  });
  return true;
}

template <typename T>
void RunPlain(const Context& context, const Product& product, const Tensor& a, const Tensor& b,
              Tensor& output) {
  if constexpr (kHasBlasProduct<T>) {
    if (RunByBlas<T>(context, product, a, b, output)) return;
  }
  const int64_t m = product.m, n = product.n, k = product.k;
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, n * k));
  context.ParallelFor(product.count() * m, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t i = row / m;
      const T* a_row =
          a.data<T>() + (StackIndex(product.batch, product.a_batch, i) * m + row % m) * k;
      const T* b_matrix = b.data<T>() + StackIndex(product.batch, product.b_batch, i) * k * n;
      MultiplyRow(a_row, b_matrix, n, k, output.data<T>() + row * n);
    }
  });
}

GemmSize SizeOf(const Product& product, bool b_packed) {
  const int64_t m = IsTall(product) ? product.m * product.count() : product.m;
  return {m, product.n, product.k, false, b_packed};
}

int64_t Products(const Product& product) { return IsTall(product) ? 1 : product.count(); }

void RunFloat(const GemmKernels& kernels, const Context& context, const Product& product,
              const Tensor& a, const Tensor& b, const ProductEnd& end, Tensor& output) {
  const GemmSize size = SizeOf(product, end.packed_b != nullptr);
  const float *a_data = a.data<float>(), *b_data = b.data<float>();
  float* c = output.data<float>();
  GemmBatch(kernels, size, Products(product), context.threads(), context.workspace<float>(),
            [&](int64_t i, int threads, float* workspace) {
              const int64_t a_index = StackIndex(product.batch, product.a_batch, i);
              const int64_t b_index = StackIndex(product.batch, product.b_batch, i);
              const MatrixSource rows(kernels, {a_data + a_index * size.m * size.k, 1, size.k});
              const MatrixSource columns(kernels, {b_data + b_index * size.k * size.n, size.n, 1});
              GemmProblem problem;
              problem.size = size;
              problem.packed = end.packed_b;
              problem.a = &rows;
              problem.b = &columns;
              problem.c = c + i * size.m * size.n;
              problem.ldc = size.n;
              problem.column_bias = end.column_bias;
              Gemm(kernels, problem, threads, workspace);
            });
}

void CheckRank(const char* name, const Tensor& tensor, int rank) {
  if (rank == 0 || tensor.rank() == rank) return;
  throw Error(ErrorCode::kInvalidArgument, std::string("expected '") + name + "' of rank " +
                                               std::to_string(rank) + ", got " +
                                               tensor.shape().ToString());
}

[[noreturn]] void ThrowShapes(const Shape& a, const Shape& b, const char* what) {
  throw Error(ErrorCode::kInvalidArgument,
              std::string("cannot multiply ") + a.ToString() + " by " + b.ToString() + ": " + what);
}

}  // namespace

int64_t StackIndex(const Shape& result, const Shape& operand, int64_t i) {
  int64_t index = 0, scale = 1;
  for (int axis = result.rank() - 1; axis >= 0; --axis) {
    const int own = axis - (result.rank() - operand.rank());
    const int64_t position = i % result[axis];
    i /= result[axis];
    if (own < 0) break;
    if (operand[own] != 1) index += position * scale;
    scale *= operand[own];
  }
  return index;
}

double Product::multiplications() const {
  return static_cast<double>(count()) * static_cast<double>(m) * static_cast<double>(n) *
         static_cast<double>(k);
}

Product MatmulProduct(const Shape& a, const Shape& b) {
  if (a.rank() == 0 || b.rank() == 0) ThrowShapes(a, b, "expected at least one axis each");
  Product product;
  const bool a_vector = a.rank() == 1, b_vector = b.rank() == 1;
  product.k = a[a.rank() - 1];
  if (product.k != b[b_vector ? 0 : b.rank() - 2]) {
    ThrowShapes(a, b, "the extents that are summed over differ");
  }
  if (!a_vector) {
    product.m = a[a.rank() - 2];
    product.a_batch = Leading(a, a.rank() - 2);
  }
  if (!b_vector) {
    product.n = b[b.rank() - 1];
    product.b_batch = Leading(b, b.rank() - 2);
  }
  product.batch = BroadcastShapes(product.a_batch, product.b_batch);
  product.output = product.batch;
  if (!a_vector) product.output.Append(product.m);
  if (!b_vector) product.output.Append(product.n);
  // Throw where the extents multiply to too much, also where another extent is 0.
  CheckedMultiply(product.m, product.n);
  product.output.elements();
  return product;
}

void CheckProductDTypes(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype()) return;
  throw Error(ErrorCode::kInvalidArgument,
              "expected two tensors of one dtype, got " + a.ToString() + " and " + b.ToString());
}

void CheckMatmul(const MatmulForm& form, const Tensor& a, const Tensor& b) {
  CheckRank("input", a, form.a_rank);
  CheckRank(form.b, b, form.b_rank);
  CheckProductDTypes(a, b);
  if (form.a_rank == 3 && a.shape()[0] != b.shape()[0]) {
    throw Error(ErrorCode::kInvalidArgument, "expected two batches of one size, got " +
                                                 a.shape().ToString() + " and " +
                                                 b.shape().ToString());
  }
}

bool IsIntegerFactor(double factor) {
  return factor == std::trunc(factor) && std::fabs(factor) < 0x1p62;
}

void CheckFactors(DType dtype, double alpha, double beta) {
  if (!IsInteger(dtype) || (IsIntegerFactor(alpha) && IsIntegerFactor(beta))) return;
  throw Error(ErrorCode::kInvalidArgument,
              "expected integers alpha and beta for dtype " + std::string(Name(dtype)) + ", got " +
                  Value(alpha).ToString() + " and " + Value(beta).ToString());
}

PackedMatrix PackConstant(const GemmKernels& kernels, const Value& b) {
  if (!b.IsTensor()) return {};
  const Tensor& matrix = b.AsTensor();
  if (matrix.dtype() != DType::kF32 || matrix.rank() != 2) return {};
  const int64_t k = matrix.shape()[0], n = matrix.shape()[1];
  const MatrixSource columns(kernels, {matrix.data<float>(), n, 1});
  return PackedMatrix(kernels, GemmSide::kB, n, k, columns);
}

size_t ProductWorkspace(const GemmKernels& kernels, const Product& product, DType dtype,
                        bool b_packed, int threads) {
  if (dtype != DType::kF32 || product.output.elements() == 0) return 0;
  const int64_t floats =
      GemmBatchWorkspace(kernels, SizeOf(product, b_packed), Products(product), threads);
  return CheckedMultiply(static_cast<size_t>(floats), sizeof(float));
}

void RunProduct(const GemmKernels& kernels, const Context& context, const Product& product,
                const Tensor& a, const Tensor& b, const ProductEnd& end, Tensor& output) {
  if (output.elements() == 0) return;
  switch (a.dtype()) {
    case DType::kF32: return RunFloat(kernels, context, product, a, b, end, output);
    case DType::kF64: return RunPlain<double>(context, product, a, b, output);
    case DType::kC64: return RunPlain<std::complex<float>>(context, product, a, b, output);
    case DType::kC128: return RunPlain<std::complex<double>>(context, product, a, b, output);
    case DType::kI8: return RunPlain<int8_t>(context, product, a, b, output);
    case DType::kU8: return RunPlain<uint8_t>(context, product, a, b, output);
    case DType::kI16: return RunPlain<int16_t>(context, product, a, b, output);
    case DType::kI32: return RunPlain<int32_t>(context, product, a, b, output);
    case DType::kI64: return RunPlain<int64_t>(context, product, a, b, output);
    default:
      throw Error(ErrorCode::kInternal,
                  "no matrix product of dtype " + std::string(Name(a.dtype())));
  }
}

}  // namespace oort
