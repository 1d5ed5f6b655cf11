// SPDX-License-Identifier: MIT
// The im2col matrix of an NHWC image, gathered panel by panel while the product runs (implicit
// GEMM, Chetlur et al. 2014).
#pragma once

#include "cpu/gemm.h"
#include "cpu/interleave.h"
#include "layers/convolution/conv_geometry.h"

namespace oort {

/// Element (k, i) is what output pixel i reads at k = tap * channels + channel; the pixels of all
/// images of a batch are counted on.
struct NhwcWindows {
  const float* image = nullptr;
  int64_t pixel = 0;     ///< floats from one pixel to the next
  int64_t channels = 0;  ///< that are read of each
  ConvAxis height, width;
  const float* zeros = nullptr;  ///< as many as channels: what lies outside the image
};

class NhwcSource final : public PanelSource {
 public:
  NhwcSource(const InterleaveKernels& kernels, const NhwcWindows& windows)
      : kernels_(kernels), windows_(windows) {}
  void Pack(int64_t k0, int64_t k1, int64_t i0, int64_t i1, int width, float* panel) const override;
  void PackFor(const GemmKernels& kernels, int64_t k0, int64_t k1, int64_t i0, int64_t i1,
               const PanelPart& part) const override;

 private:
  struct Pixel {
    const float* image;  // of the batch
    int64_t y, x;        // of the first tap, perhaps outside
  };
  /// Takes rows with some steps of k, behind `first` of the panel:
  /// pack(const float* const* rows, int count, int64_t first, int64_t depth)
  /// Whole windows are filled up with zeros to a multiple of so many steps.
  template <typename PackRun>
  void Gather(int64_t k0, int64_t k1, int64_t i0, int64_t i1, int width, int multiple,
              const PackRun& pack) const;
  template <typename PackRun>
  void GatherTaps(const Pixel* pixels, int count, int64_t k0, int64_t k1,
                  const PackRun& pack) const;
  template <typename PackRun>
  void GatherWindows(const Pixel* pixels, int count, int64_t padded, const PackRun& pack) const;
  void CopyWindow(const Pixel& pixel, float* row) const;
  const float* At(const Pixel& pixel, int64_t kh, int64_t kw) const;

  const InterleaveKernels& kernels_;
  const NhwcWindows& windows_;
};

}  // namespace oort
