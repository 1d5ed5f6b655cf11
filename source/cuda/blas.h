// SPDX-License-Identifier: MIT
// Matrix products by cuBLASLt.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include "cuda/stream.h"
#include "oort/dtype.h"

namespace oort::cuda {

/// The functions of cuBLASLt that we call. The library is opened at its first use instead of being
/// linked: it has 700 MB, a program without it would not even start, and most of what runs on the
/// GPU does not need it. libcublas itself is not used: cuBLASLt does all products, and better.
struct BlasFunctions {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
};

/// Throws kUnsupported, with where it looked, if there is no cuBLASLt of CUDA's major version:
/// libcublasLt.so.13 where the loader looks, in $CUDA_HOME, /usr/local/cuda, or $OORT_CUBLASLT.
const BlasFunctions& Blas();
/// Whether it is there; the reason where it is not.
bool HasBlas(std::string* reason);
/// That of a device, made at first use; any number of threads may use it.
cublasLtHandle_t BlasHandle(int device);

/// A kind of product of row-major matrices: C = alpha * op(A) op(B) + beta * C (+ bias), where
/// op(A) is (m,k) and op(B) is (k,n).
struct Product {
  enum Epilogue : unsigned char { kNone, kBias, kBiasRelu, kBiasGelu };
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  ///< A lies as (k,m)
  bool transpose_b = false;  ///< B lies as (n,k)
  DType input = DType::kF32;
  DType output = DType::kF32;
  bool fp8 = false;   ///< inputs are e4m3, as large as kI8, which `input` says
  bool tf32 = false;  ///< f32 inputs are rounded to tf32 for the tensor cores
  Epilogue epilogue = kNone;
  float alpha = 1, beta = 0;
  int64_t batch = 1;
  // From one matrix of the batch to the next, and from one row to the next, in elements; rows of 0
  // stand for dense ones.
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  int64_t row_a = 0, row_b = 0, row_c = 0;
  int alignment = 64;  ///< bytes that all addresses are multiples of; 64: of planned memory
  auto operator<=>(const Product&) const = default;
};

/// A product with the algorithm that cuBLASLt thinks best.
class Matmul {
 public:
  /// Kept for the next who asks. Throws kUnsupported where cuBLASLt has nothing for it.
  static std::shared_ptr<const Matmul> For(const Product& product, int device);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  size_t workspace() const;  ///< bytes that Run needs
  /// `addend` is what beta multiplies, if not what `c` holds.
  void Run(const Stream& stream, const void* a, const void* b, void* c, const void* bias,
           void* workspace, const void* addend = nullptr) const;

 private:
  Matmul(const Product& product, int device);
  void Describe();
  void Choose();
  Product product_;
  int device_;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  size_t workspace_ = 0;
};

}  // namespace oort::cuda
