// SPDX-License-Identifier: MIT
#include "cpu/lanes.h"
#include "layers/channels_last/pack_kernels.h"

namespace oort::OORT_ISA {
namespace {

uint16x8_t RoundEight(const float* x) {
  return vreinterpretq_u16_f16(Narrow(Vec::Load(x), Vec::Load(x + Vec::kWidth)).v);
}

/// Images of three colours, which is nearly all.
int64_t PackColours(const float* const* planes, int64_t count, Half* out) {
  int64_t i = 0;
  for (; i + HalfVec::kWidth <= count; i += HalfVec::kWidth) {
    uint16x8x3_t colours;
    for (int c = 0; c < 3; ++c) colours.val[c] = RoundEight(planes[c] + i);
    vst3q_u16(&out[3 * i].bits, colours);
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
