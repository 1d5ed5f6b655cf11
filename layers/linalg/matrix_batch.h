// SPDX-License-Identifier: MIT
// Tensors as batches of matrices, computed in f64 or c128 and rounded at the end.
#pragma once

#include <string>

#include "core/dispatch.h"
#include "layers/aten/recipe.h"
#include "layers/linalg/decompositions.h"

namespace oort::linalg {

inline constexpr DTypeSet kMatrixDTypes = DType::kF32 | DType::kF64 | DType::kC64 | DType::kC128;

/// Registers operators on matrices that are written as recipes.
struct MatrixRecipes {
  LayerRegistry& registry;
  DTypeSet dtypes;
  void operator()(std::vector<std::string> types, const char* doc, const char* arguments,
                  Recipe recipe, int outputs = 1) const {
    AddRecipe(registry, RecipeSchema(std::move(types), doc, arguments, dtypes).Outputs(outputs),
              std::move(recipe));
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
inline DType WideDType(DType dtype) {
  return oort::IsComplex(dtype) ? DType::kC128 : dtype == DType::kI32 ? dtype : DType::kF64;
}

/// Matrix `index` of a batch that is f64 or c128.
template <typename T>
Matrix<T> Load(const Tensor& x, int64_t index) {
  Matrix<T> matrix(x.dim(-2), x.dim(-1));
  std::copy_n(x.data<T>() + index * x.dim(-2) * x.dim(-1), matrix.values.size(),
              matrix.values.begin());
  return matrix;
}
template <typename T>
void Store(const Matrix<T>& matrix, Tensor& x, int64_t index) {
  std::copy(matrix.values.begin(), matrix.values.end(),
            x.data<T>() + index * static_cast<int64_t>(matrix.values.size()));
}

/// Outputs of the metas' shapes. `body(tag, inputs, outputs)` fills them while all are wide, and
/// what it gives is rounded to the metas' dtypes.
template <typename Body>
std::vector<Value> ComputeWide(const Calls& call, const std::vector<Tensor>& inputs,
                               const std::vector<Tensor>& metas, const Body& body) {
  if (!call.computes()) return {metas.begin(), metas.end()};
  std::vector<Tensor> from, to;
  for (const Tensor& x : inputs) from.push_back(x.To(WideDType(x.dtype())));
  for (const Tensor& meta : metas) to.emplace_back(WideDType(meta.dtype()), meta.shape());
  if (oort::IsComplex(inputs[0].dtype())) {
    body(TypeTag<std::complex<double>>{}, from, to);
  } else {
    body(TypeTag<double>{}, from, to);
  }
  std::vector<Value> results;
  for (size_t i = 0; i < metas.size(); ++i) results.emplace_back(to[i].To(metas[i].dtype()));
  return results;
}

}  // namespace oort::linalg
