// SPDX-License-Identifier: MIT
#include "cpu/lanes.h"
#include "layers/layout/pack_kernels.h"

namespace oort::OORT_ISA {
namespace {

HalfVec RoundFloats(const float* x) { return Narrow(Vec::Load(x), Vec::Load(x + Vec::kWidth)); }

/// Images of three colours, which is nearly all.
int64_t PackColours(const float* const* planes, int64_t count, Half* out) {
  int64_t i = 0;
  for (; i + HalfVec::kWidth <= count; i += HalfVec::kWidth) {
    StoreInterleaved(RoundFloats(planes[0] + i), RoundFloats(planes[1] + i),
                     RoundFloats(planes[2] + i), out + 3 * i);
  }
  return i;
}

void PackPixels(const float* const* planes, int channels, int padded, int64_t count, Half* out) {
  int64_t i = channels == 3 && padded == 3 ? PackColours(planes, count, out) : 0;
  for (; i < count; ++i) {
    for (int c = 0; c < padded; ++c) out[i * padded + c] = Half(c < channels ? planes[c][i] : 0.0f);
  }
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_LANES_KERNELS(PackKernels, {.pixels = PackPixels})
