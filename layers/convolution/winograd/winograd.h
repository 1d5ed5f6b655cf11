// SPDX-License-Identifier: MIT
// 3x3 convolutions of stride 1 on NHWC images by Winograd's algorithm F(m x m, 3 x 3):
// tiles of m x m pixels cost (m+2)^2 products for each pair of channels, instead of 9 m^2.
// With a stride of 2 the even columns and rows of the window meet two taps of a filter, by F(2,2),
// and the odd ones a single tap: a tile of 2 x 2 pixels costs (3 + 2)^2 products instead of 36.
//
// Error: the largest difference is at most 5e-7 for F(2,3) and stride 2, 2e-6 for F(4,3) and 1e-5
// for F(6,3) of the largest sum of |input| |weight| (a plain sum in f32: 3e-7). A NaN or an
// infinity in the input reaches all pixels of the tiles that see it, not only those that the direct
// sum would reach; further than m + 1 pixels away it changes nothing.
//
// With kernels of cpu/gemm.h that round their factors to bf16, F(2,3) rounds the transformed image
// and the transformed weights, and nothing else: on whole networks that is as exact as rounding
// before a direct sum.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "cpu/gemm.h"
#include "layers/convolution/winograd/winograd_kernels.h"
#include "oort/tensor.h"

namespace oort {

enum class WinogradVariant { kF2, kF4, kF6, kStride2 };

/// Pixels of an output tile along one axis.
constexpr int WinogradTile(WinogradVariant variant) {
  return variant == WinogradVariant::kStride2 ? 2 : 2 + 2 * static_cast<int>(variant);
}
/// Pixels of the input that it sees, and as many coefficients.
constexpr int WinogradWindow(WinogradVariant variant) {
  return variant == WinogradVariant::kStride2 ? 5 : WinogradTile(variant) + 2;
}
constexpr int WinogradStride(WinogradVariant variant) {
  return variant == WinogradVariant::kStride2 ? 2 : 1;
}

/// What the choice of an algorithm depends on.
struct WinogradSize {
  int64_t batch = 1, out_height = 0, out_width = 0, channels = 0, out_channels = 0, stride = 1;
};

/// One call. Images lie one after another, pixels `stride` elements apart.
template <typename T>
struct WinogradCallOf {
  const T* input = nullptr;
  int64_t batch = 0, height = 0, width = 0, input_stride = 0;
  int64_t pad_top = 0, pad_left = 0;  ///< zeros; those below and to the right follow from the sizes
  T* output = nullptr;
  int64_t out_height = 0, out_width = 0, output_stride = 0;
  const T* add = nullptr;  ///< a residual of the output's shape, or null
  int64_t add_stride = 0;
  ActivationSpec activation;
};

/// Of elements T: float, or Half for what computes in f16, transforms included.
/// Thread contract: const methods run concurrently.
template <typename T>
class WinogradConvOf {
 public:
  /// The cheapest variant for a size, or none where the direct sum is cheaper.
  /// `rounding` are the kernels of products of f32 images below f32, else null.
  static std::optional<WinogradVariant> Choose(const WinogradSize& size, Isa isa,
                                               const GemmKernels* rounding = nullptr);
  /// Whether there are kernels for a variant: rounded factors have F(2,3) alone, on NEON, and f16
  /// has no F(6,3), which would lose too many digits.
  static bool Has(WinogradVariant variant, Isa isa, const GemmKernels* rounding = nullptr);

  /// `weight` is (out, in, 3, 3) in f32; `bias` (out), or undefined.
  WinogradConvOf(Isa isa, const Tensor& weight, const Tensor& bias, WinogradVariant variant,
                 const GemmKernels* rounding = nullptr);
  WinogradVariant variant() const { return variant_; }
  /// Scratch bytes of one call.
  size_t Workspace(const WinogradSize& size, int threads) const;
  /// `workspace` is aligned to 64 bytes.
  void Run(const WinogradCallOf<T>& call, int threads, void* workspace) const;

 private:
  struct Plan;
  class Job;
  Plan MakePlan(const WinogradSize& size, int threads) const;
  void PackWeights(const Tensor& weight);

  const WinogradKernelsOf<T>& kernels_;
  const GemmKernels* rounding_;  // null where products are of T
  WinogradVariant variant_;
  int64_t channels_, out_channels_;
  int columns_;               // of a panel
  int64_t k_;                 // channels, up to whole vectors
  int64_t panels_;            // of output channels
  int64_t matrix_bytes_ = 0;  // of one coefficient's panel of weights
  std::shared_ptr<Buffer> weights_, bias_;
};
using WinogradCall = WinogradCallOf<float>;
using WinogradConv = WinogradConvOf<float>;

}  // namespace oort
