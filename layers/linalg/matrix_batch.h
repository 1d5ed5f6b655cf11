// SPDX-License-Identifier: MIT
// Tensors as batches of matrices.
#pragma once

#include <string>

#include "core/dispatch.h"
#include "layers/composite/decomposition.h"
#include "layers/linalg/factorizations.h"

namespace oort::linalg {

inline constexpr DTypeSet kMatrixDTypes = DType::kF32 | DType::kF64 | DType::kC64 | DType::kC128;

/// Registers operators on matrices that are written as decompositions.
struct MatrixOperators {
  LayerRegistry& registry;
  DTypeSet dtypes;
  bool by_lapack = false;  ///< refused when a model is loaded, where there is no LAPACK
  void operator()(std::vector<std::string> types, const char* doc, const char* arguments,
                  Decomposition decomposition, int outputs = 1) const {
    OperatorSchema schema =
        DecompositionSchema(std::move(types), doc, arguments, dtypes).Outputs(outputs);
    if (!by_lapack) return AddDecomposition(registry, std::move(schema), std::move(decomposition));
    registry.Add(std::move(schema),
                 [create = CreateDecomposed(std::move(decomposition))](const LayerInit& init) {
                   lapack::Require();
                   return create(init);
                 });
  }
};

[[noreturn]] inline void Fail(const std::string& expected, const Tensor& got) {
  throw Error(ErrorCode::kInvalidArgument, "expected " + expected + ", got " + got.ToString());
}

inline void RequireMatrices(const Tensor& x) {
  if (x.rank() < 2) Fail("a matrix or a batch of matrices", x);
}
inline void RequireSquare(const Tensor& x) {
  if (x.rank() < 2 || x.dim(-1) != x.dim(-2)) Fail("square matrices", x);
}

/// The batch axes, followed by others.
inline Shape BatchShape(const Tensor& x, std::initializer_list<int64_t> behind) {
  Shape shape;
  for (int i = 0; i + 2 < x.rank(); ++i) shape.Append(x.shape()[i]);
  for (int64_t extent : behind) shape.Append(extent);
  return shape;
}
inline int64_t BatchCount(const Tensor& x) { return x.shape().Product(0, x.rank() - 2); }

inline DType RealDType(DType dtype) {
  return dtype == DType::kC64 ? DType::kF32 : dtype == DType::kC128 ? DType::kF64 : dtype;
}
inline DType ComplexDType(DType dtype) {
  return dtype == DType::kF32 ? DType::kC64 : dtype == DType::kF64 ? DType::kC128 : dtype;
}

/// Where matrix `index` of a batch begins.
template <typename T>
const T* Begin(const Tensor& x, int64_t index) {
  return x.data<T>() + index * x.dim(-2) * x.dim(-1);
}
template <typename T>
T* Begin(Tensor& x, int64_t index) {
  return x.data<T>() + index * x.dim(-2) * x.dim(-1);
}

template <typename T>
Matrix<T> Load(const Tensor& x, int64_t index, Form form = Form::kPlain) {
  return Matrix<T>::From(Begin<T>(x, index), x.dim(-2), x.dim(-1), form);
}
template <typename T>
void Store(const Matrix<T>& matrix, Tensor& x, int64_t index, Form form = Form::kPlain) {
  matrix.CopyTo(Begin<T>(x, index), form);
}

/// For algorithms that go on until they converge: they might never, where a NaN is among the
/// elements (of a triangle, where only that counts). torch refuses these, too.
template <typename T, typename Counts>
void RequireFinite(const Matrix<T>& a, const Counts& counts) {
  for (Int j = 0; j < a.columns(); ++j) {
    for (Int i = 0; i < a.rows(); ++i) {
      if (!counts(i, j) || IsFinite(a(i, j))) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  "the matrix has no such values: it holds a NaN or an infinity (row " +
                      std::to_string(i) + ", column " + std::to_string(j) + ")");
    }
  }
}
template <typename T>
void RequireFinite(const Matrix<T>& a) {
  RequireFinite(a, [](Int, Int) { return true; });
}

inline void RequireRegular(Int info, const char* what) {
  if (info == 0) return;
  throw Error(ErrorCode::kInvalidArgument,
              std::string("the matrix is ") + what + " (at column " + std::to_string(info) + ")");
}
inline void RequireConverged(Int info) {
  if (info == 0) return;
  throw Error(ErrorCode::kInvalidArgument,
              "the algorithm did not converge: the matrix is ill-conditioned or has too many equal "
              "values (LAPACK's info is " +
                  std::to_string(info) + ")");
}

/// Outputs of the metas' shapes, which `body(tag, inputs, outputs)` fills; the tag is of the dtype
/// of the first input.
template <typename Body>
std::vector<Value> Compute(const Decomposer& call, const std::vector<Tensor>& inputs,
                           const std::vector<Tensor>& metas, const Body& body) {
  if (!call.computes()) return {metas.begin(), metas.end()};
  std::vector<Tensor> outputs;
  for (const Tensor& meta : metas) outputs.emplace_back(meta.dtype(), meta.shape());
  switch (inputs[0].dtype()) {
    case DType::kF32: body(TypeTag<float>{}, inputs, outputs); break;
    case DType::kF64: body(TypeTag<double>{}, inputs, outputs); break;
    case DType::kC64: body(TypeTag<std::complex<float>>{}, inputs, outputs); break;
    case DType::kC128: body(TypeTag<std::complex<double>>{}, inputs, outputs); break;
    default: Fail("f32, f64, c64 or c128", inputs[0]);
  }
  return {outputs.begin(), outputs.end()};
}

}  // namespace oort::linalg
