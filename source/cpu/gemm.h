// SPDX-License-Identifier: MIT
// Single-precision matrix products C[m,n] = activation(A[m,k] B[k,n] + bias + addend) over packed
// panels.
//
// A panel holds a few rows of A (or columns of B) with k running outermost, so that a kernel reads
// both sides as two streams. One side, usually the weights, is packed once and kept
// (PackedMatrix); the other is packed block by block while the product runs, by a PanelSource,
// which may gather from anywhere: a convolution gathers straight from its image.
// Results do not depend on the number of threads: sums over k are always cut at the same places.
#pragma once

#include <cstdint>
#include <memory>

#include "cpu/activation.h"
#include "cpu/kernels.h"
#include "oort/function_ref.h"
#include "oort/tensor.h"

namespace oort {

/// Elements (k, i) of one side: i counts rows of A or columns of B.
struct StridedMatrix {
  const float* data = nullptr;
  int64_t k_stride = 0;
  int64_t i_stride = 0;
};

/// One tile of C. What lies beyond `rows` and `columns` is computed and dropped.
struct GemmTile {
  int64_t k = 0;
  const float* a = nullptr;  ///< panel of A: k times the kernel's rows
  const float* b = nullptr;  ///< panel of B: k times the kernel's columns
  float* c = nullptr;
  int64_t ldc = 0;
  int rows = 0, columns = 0;
  const float* row_bias = nullptr;  ///< one for each row, or null
  const float* column_bias = nullptr;
  bool accumulate = false;        ///< add to what C holds, instead of to the bias
  ActivationSpec activation;      ///< kNone where the sum is not complete yet
  const float* addend = nullptr;  ///< null where the sum is not complete yet
  int64_t addend_stride = 0;
};

/// `count` elements y = panel^T x + bias, for one panel of `width` columns.
struct GemvPanel {
  int64_t k = 0;
  const float* panel = nullptr;
  const float* x = nullptr;
  float* y = nullptr;
  int64_t y_stride = 1;
  int count = 0;
  const float* bias = nullptr;
  const float* addend = nullptr;
  int64_t addend_stride = 1;
  ActivationSpec activation;
};

struct GemmKernels {
  int rows;     ///< of a tile: the width of A's panels
  int columns;  ///< of a tile: the width of B's panels
  int depth;    ///< most steps of k that a tile takes at once
  void (*tile)(const GemmTile& tile);
  void (*gemv_rows)(const GemvPanel& panel);     ///< on a panel of A
  void (*gemv_columns)(const GemvPanel& panel);  ///< on a panel of B
  /// Panel elements (k, i) for k in [k0, k1), i in [i0, i1), zeros up to `width`.
  void (*pack)(const StridedMatrix& matrix, int64_t k0, int64_t k1, int64_t i0, int64_t i1,
               int width, float* panel);
};
OORT_DECLARE_KERNELS(GemmKernels)

/// Fills panels. Thread contract: Pack runs concurrently.
class PanelSource {
 public:
  virtual ~PanelSource() = default;
  /// Element (k, i) goes to panel[(k - k0) * width + (i - i0)], for k in [k0, k1) and i in
  /// [i0, i1), i1 - i0 <= width; the rest of each row becomes zero.
  virtual void Pack(int64_t k0, int64_t k1, int64_t i0, int64_t i1, int width,
                    float* panel) const = 0;
};

/// A matrix in memory with any strides.
class MatrixSource final : public PanelSource {
 public:
  MatrixSource(const GemmKernels& kernels, StridedMatrix matrix)
      : kernels_(kernels), matrix_(matrix) {}
  void Pack(int64_t k0, int64_t k1, int64_t i0, int64_t i1, int width,
            float* panel) const override {
    kernels_.pack(matrix_, k0, k1, i0, i1, width, panel);
  }

 private:
  const GemmKernels& kernels_;
  StridedMatrix matrix_;
};

enum class GemmSide { kA, kB };

/// Floats that a packed matrix takes; throws kInvalidArgument where they overflow.
int64_t PackedSize(const GemmKernels& kernels, GemmSide side, int64_t extent, int64_t k);
/// Packs a whole matrix into PackedSize floats.
void PackMatrix(const GemmKernels& kernels, GemmSide side, int64_t extent, int64_t k,
                const PanelSource& source, int threads, float* panels);

/// The reverse: element (k, i) goes to matrix[i * k_extent + k].
void UnpackMatrix(const GemmKernels& kernels, GemmSide side, int64_t extent, int64_t k_extent,
                  const float* panels, float* matrix);

/// A matrix packed for one instruction set, kept by the layer whose weight it is.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  PackedMatrix(const GemmKernels& kernels, GemmSide side, int64_t extent, int64_t k,
               const PanelSource& source);
  bool empty() const { return buffer_ == nullptr; }
  const float* panels() const { return reinterpret_cast<const float*>(buffer_->data()); }

 private:
  std::shared_ptr<Buffer> buffer_;
};

struct GemmSize {
  int64_t m = 0, n = 0, k = 0;
  bool a_packed = false, b_packed = false;  ///< at most one
};

struct GemmProblem {
  GemmSize size;
  const float* packed = nullptr;   ///< panels of the side that is packed, if one is
  const PanelSource* a = nullptr;  ///< sources of the sides that are not
  const PanelSource* b = nullptr;
  float* c = nullptr;
  int64_t ldc = 0;
  const float* row_bias = nullptr;     ///< m elements, or null
  const float* column_bias = nullptr;  ///< n elements, or null; not both
  /// A matrix (m,n) that is added behind the bias, or null; it must not overlap C.
  const float* addend = nullptr;
  int64_t addend_stride = 0;  ///< from one row to the next
  ActivationSpec activation;
};

/// Scratch floats that Gemm needs for such a problem.
int64_t GemmWorkspace(const GemmKernels& kernels, const GemmSize& size, int threads);
/// Writes C. `workspace` is aligned to 64 bytes.
void Gemm(const GemmKernels& kernels, const GemmProblem& problem, int threads, float* workspace);

/// Many products of one size: spread over the threads where there are enough of them, else each on
/// all threads. `run(i, threads, workspace)` does the i-th and may run concurrently.
int64_t GemmBatchWorkspace(const GemmKernels& kernels, const GemmSize& size, int64_t count,
                           int threads);
using GemmRun = FunctionRef<void(int64_t i, int threads, float* workspace)>;
void GemmBatch(const GemmKernels& kernels, const GemmSize& size, int64_t count, int threads,
               float* workspace, GemmRun run);

}  // namespace oort
