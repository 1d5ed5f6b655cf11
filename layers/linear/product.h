// SPDX-License-Identifier: MIT
// Products of stacks of matrices, as torch.matmul defines them.
#pragma once

#include <vector>

#include "cpu/gemm.h"
#include "oort/layer.h"

namespace oort {

/// What matrix products take: every number type but bool. RunProduct itself has none of 16-bit
/// floats; layers get these through WithHalves.
inline constexpr DTypeSet kProductDTypes = kFloats | DType::kC64 | DType::kC128 | kIntegers;

/// `batch` products of (m,k) by (k,n). Stacks broadcast; a stack of matrices times one matrix is
/// a single product.
struct Product {
  int64_t m = 1, n = 1, k = 0;
  Shape batch;             ///< of the result
  Shape a_batch, b_batch;  ///< of the operands
  Shape output;
  int64_t count() const { return batch.elements(); }
  double multiplications() const;
};

/// The rules of torch.matmul; throws kInvalidArgument where the shapes do not fit.
Product MatmulProduct(const Shape& a, const Shape& b);

/// The names of the two operands, and the ranks that they must have (0: any).
struct MatmulForm {
  const char* type;
  const char* b;
  int a_rank, b_rank;
  const char* doc;
};
inline constexpr MatmulForm kMatmulForms[] = {
    {"torch.matmul", "other", 0, 0, "Matrix product; stacks of matrices broadcast"},
    {"torch.mm", "mat2", 2, 2, "Product of two matrices"},
    {"torch.bmm", "mat2", 3, 3, "Products of two batches of matrices"},
    {"torch.mv", "vec", 2, 1, "Product of a matrix and a vector"},
    {"aten::dot", "tensor", 1, 1, "The sum of the products of two vectors"},
};

/// Throws unless both operands have the ranks of the form, one dtype and batches of one size.
void CheckMatmul(const MatmulForm& form, const Tensor& a, const Tensor& b);

/// Where matrix `i` of the result's stack comes from in an operand's stack.
int64_t StackIndex(const Shape& result, const Shape& operand, int64_t i);

/// Throws unless both are of one dtype.
void CheckProductDTypes(const Tensor& a, const Tensor& b);

/// Whether a factor can be multiplied with integers and leave them integers.
bool IsIntegerFactor(double factor);
/// For sums with products: throws unless integers have integer factors.
void CheckFactors(DType dtype, double alpha, double beta);

/// The panels of a constant f32 matrix (k,n); empty for any other value.
PackedMatrix PackConstant(const GemmKernels& kernels, const Value& b);

/// What is done to an f32 product on its way out.
struct ProductEnd {
  const void* packed_b = nullptr;      ///< panels of b, where it is a constant matrix
  const float* column_bias = nullptr;  ///< n elements
};

size_t ProductWorkspace(const GemmKernels& kernels, const Product& product, DType dtype,
                        bool b_packed, int threads);
/// Writes `output`, which has the elements of product.output.
void RunProduct(const GemmKernels& kernels, const Context& context, const Product& product,
                const Tensor& a, const Tensor& b, const ProductEnd& end, Tensor& output);

}  // namespace oort
