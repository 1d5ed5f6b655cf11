// SPDX-License-Identifier: MIT
// Matrix products C[m,n] = activation(A[m,k] B[k,n] + bias + addend) of f32 over packed panels.
//
// The blocking is that of Goto and van de Geijn (2008) and BLIS. A panel holds a few rows of A (or
// columns of B) with k running outermost, so that a kernel reads two streams. One side, usually the
// weights, is packed once and kept (PackedMatrix). A PanelSource packs blocks of the other while
// the product runs, and may gather: a convolution gathers from its image. The kernels say what
// panels hold: f32, or factors that were rounded to bf16 on the way. Results do not depend on the
// number of threads: sums over k are always cut at the same places.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cpu/activation.h"
#include "cpu/gemm_windows.h"
#include "cpu/kernels.h"
#include "oort/function_ref.h"
#include "oort/precision.h"
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
  const void* a = nullptr;  ///< panel of A: k times the kernel's rows, or a_width
  const void* b = nullptr;  ///< panel of B: k times the kernel's columns
  float* c = nullptr;
  int64_t ldc = 0;
  int rows = 0, columns = 0;
  int a_width = 0;                  ///< of the panel of A; 0 for the kernel's rows
  const float* row_bias = nullptr;  ///< one for each row, or null
  const float* column_bias = nullptr;
  bool accumulate = false;        ///< add to what C holds, instead of to the bias
  ActivationSpec activation;      ///< kNone where the sum is not complete yet
  const float* addend = nullptr;  ///< null where the sum is not complete yet
  int64_t addend_stride = 0;
  const void* soon = nullptr;  ///< what tiles behind this one will read from far away, or null
  int64_t soon_bytes = 0;
};

/// `count` elements y = panel^T x + bias, for one panel of `width` columns.
struct GemvPanel {
  int64_t k = 0;
  const void* panel = nullptr;
  const float* x = nullptr;
  float* y = nullptr;
  int64_t y_stride = 1;
  int count = 0;
  const float* bias = nullptr;
  const float* addend = nullptr;
  int64_t addend_stride = 1;
  ActivationSpec activation;
};

enum class GemmSide { kA, kB };

/// What panels hold: element (k, i) stands at [k / group][i][k % group].
struct PanelFormat {
  int element = sizeof(float);   ///< bytes
  int a_group = 1, b_group = 1;  ///< of the panels of A and of B
  int k_multiple = 1;  ///< a panel has so many steps of k or a multiple; the last are zero
  int group(GemmSide side) const { return side == GemmSide::kA ? a_group : b_group; }
  int64_t Padded(int64_t k) const { return (k + k_multiple - 1) / k_multiple * k_multiple; }
};

/// A part of a panel in the format of the kernels.
struct PanelPart {
  GemmSide side = GemmSide::kA;
  int width = 0;  ///< of the panel
  void* panel = nullptr;
  const float* scale = nullptr;  ///< of each step of A that is packed, where kernels scale; or null
};

struct GemmKernels {
  PanelFormat format = {};
  int rows;     ///< of a tile: the width of A's panels
  int columns;  ///< of a tile: the width of B's panels
  int depth;    ///< most steps of k that a tile takes at once: a multiple of format.k_multiple
  /// Whether panels of A may be narrower than `rows`, so that equal ones leave no padding.
  bool any_width = false;
  void (*tile)(const GemmTile& tile);
  void (*gemv_rows)(const GemvPanel& panel);     ///< on a panel of A
  void (*gemv_columns)(const GemvPanel& panel);  ///< on a panel of B
  /// Panel elements (k, i) for k in [k0, k1), i in [i0, i1), zeros up to `width`.
  void (*pack)(const StridedMatrix& matrix, int64_t k0, int64_t k1, int64_t i0, int64_t i1,
               int width, float* panel);
  // Null where panels hold f32 with a group of 1:
  /// Fills the panel from an f32 one (group 1) of `k` steps, with zeros up to a whole multiple.
  void (*convert)(const float* from, int64_t k, const PanelPart& part) = nullptr;
  /// Panel elements (first + k, i) = rows[i][k] for k in [0, depth) and i in [0, count), zeros for
  /// the i up to the width; other steps of k are left as they are. May be null.
  void (*pack_rows)(const float* const* rows, int count, int64_t first, int64_t depth,
                    const PanelPart& part) = nullptr;
  bool scales = false;  ///< whether pack_rows multiplies by PanelPart::scale
  /// Called by each thread before its tiles and after them, unless null.
  void (*begin)() = nullptr;
  void (*end)() = nullptr;
  /// The given tile and those right of it, `count` in all, each with the whole of `columns`; the
  /// panels of B lie one behind another, `b_step` bytes apart. Returns whether it did so: else
  /// nothing is done. May be null.
  bool (*tiles)(const GemmTile& tile, int64_t count, int64_t b_step) = nullptr;
  /// The same for tiles below the given one, each with the whole of `rows`; the panels of A are
  /// `a_step` bytes apart.
  bool (*tiles_below)(const GemmTile& tile, int64_t count, int64_t a_step) = nullptr;
  /// For convolutions whose images need not be packed, or null.
  const GemmWindowKernels* windows = nullptr;
};
OORT_DECLARE_KERNELS(GemmKernels)
/// The same kernels on factors that were rounded to bf16: for processors that have no such units.
struct RoundedGemmKernels {
  GemmKernels gemm;
};
OORT_DECLARE_KERNELS(RoundedGemmKernels)
/// The kernels for a precision: on this processor's matrix units, where it has them.
const GemmKernels& GemmKernelsFor(Isa isa, Precision precision);

/// Fills panels. Thread contract: const methods run concurrently.
class PanelSource {
 public:
  virtual ~PanelSource() = default;
  /// Element (k, i) goes to panel[(k - k0) * width + (i - i0)], for k in [k0, k1) and i in
  /// [i0, i1), i1 - i0 <= width; the rest of each row becomes zero.
  virtual void Pack(int64_t k0, int64_t k1, int64_t i0, int64_t i1, int width,
                    float* panel) const = 0;
  /// The same in the format of the kernels, k0 being a multiple of format.k_multiple. By default
  /// f32 is packed and converted piece by piece; overridden by those that can do without.
  virtual void PackFor(const GemmKernels& kernels, int64_t k0, int64_t k1, int64_t i0, int64_t i1,
                       const PanelPart& part) const;
};

/// A matrix in memory with any strides.
class MatrixSource final : public PanelSource {
 public:
  /// `scale` are factors of the steps of k, for kernels that scale and a k_stride of 1; or null.
  MatrixSource(const GemmKernels& kernels, StridedMatrix matrix, const float* scale = nullptr)
      : kernels_(kernels), matrix_(matrix), scale_(scale) {}
  void Pack(int64_t k0, int64_t k1, int64_t i0, int64_t i1, int width,
            float* panel) const override {
    kernels_.pack(matrix_, k0, k1, i0, i1, width, panel);
  }
  void PackFor(const GemmKernels& kernels, int64_t k0, int64_t k1, int64_t i0, int64_t i1,
               const PanelPart& part) const override;

 private:
  const GemmKernels& kernels_;
  StridedMatrix matrix_;
  const float* scale_;
};

/// For callers that fill panels with GemmKernels::pack_rows: zeroes the last multiple of steps of
/// k, which is only partly filled afterwards.
void ZeroLastSteps(const GemmKernels& kernels, int64_t k, const PanelPart& part);

/// Bytes that a packed matrix takes; throws kInvalidArgument where they overflow.
int64_t PackedBytes(const GemmKernels& kernels, GemmSide side, int64_t extent, int64_t k);
/// Packs a whole matrix into PackedBytes.
void PackMatrix(const GemmKernels& kernels, GemmSide side, int64_t extent, int64_t k,
                const PanelSource& source, int threads, void* panels);

/// The reverse: element (k, i) goes to matrix[i * k_extent + k].
void UnpackMatrix(const GemmKernels& kernels, GemmSide side, int64_t extent, int64_t k_extent,
                  const void* panels, float* matrix);

/// A matrix packed for one instruction set, kept by the layer whose weight it is.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  PackedMatrix(const GemmKernels& kernels, GemmSide side, int64_t extent, int64_t k,
               const PanelSource& source);
  bool empty() const { return buffer_ == nullptr; }
  const void* panels() const { return buffer_->data(); }

 private:
  std::shared_ptr<Buffer> buffer_;
};

struct GemmSize {
  int64_t m = 0, n = 0, k = 0;
  bool a_packed = false, b_packed = false;  ///< at most one
};

/// Columns of C that have a place of their own.
struct GemmColumns {
  int64_t begin = 0, count = 0;  ///< `begin` is a multiple of the kernel's columns
  float* c = nullptr;
  int64_t ldc = 0;
};

struct GemmProblem {
  GemmSize size;
  const void* packed = nullptr;    ///< panels of the side that is packed, if one is
  const PanelSource* a = nullptr;  ///< sources of the sides that are not
  const PanelSource* b = nullptr;
  float* c = nullptr;
  int64_t ldc = 0;
  /// If there are any, C is not in one place, and without an addend: panels of B begin in one of
  /// these each, in their order; what is in none is dropped.
  std::span<const GemmColumns> parts = {};
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
