// SPDX-License-Identifier: MIT
// Integer kernels in plain C++: the reference of those for vector units, and what runs without any.
#include <cmath>
#include <cstring>

#include "layers/quantize/integer_kernels.h"

namespace oort {
namespace {

void StorePlain(const IntegerEpilogue& epilogue, int64_t at, int64_t channel, uint32_t sum) {
  float value = std::fma(static_cast<float>(static_cast<int32_t>(sum)), epilogue.scale[channel],
                         epilogue.bias[channel]);
  const int64_t place = at * epilogue.stride + channel;
  if (epilogue.addend != nullptr) {
    const int64_t from = at * epilogue.addend_stride + channel;
    const int32_t addend = epilogue.addend_signed
                               ? static_cast<const int8_t*>(epilogue.addend)[from]
                               : static_cast<const uint8_t*>(epilogue.addend)[from];
    value = std::fma(static_cast<float>(addend), epilogue.addend_scale, value);
  }
  if (epilogue.result == IntegerResult::kF32) {
    static_cast<float*>(epilogue.out)[place] = value;
    return;
  }
  value = value < epilogue.high ? value : epilogue.high;
  value = value > epilogue.low ? value : epilogue.low;
  const int32_t rounded = static_cast<int32_t>(std::nearbyint(value)) + epilogue.zero_point;
  static_cast<uint8_t*>(epilogue.out)[place] = static_cast<uint8_t>(rounded);
}

void StagePlain(const void* bytes, bool is_signed, int64_t count, void* staged) {
  const uint8_t* from = static_cast<const uint8_t*>(bytes);
  uint8_t* to = static_cast<uint8_t*>(staged);
  if (!is_signed) {
    std::memcpy(to, from, static_cast<size_t>(count));
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] ^ 0x80u;
}

/// Sums wrap around on their way, as those of vectors do; what comes out fits.
uint32_t Product(uint8_t x, int8_t weight) {
  return static_cast<uint32_t>(int32_t{x} * int32_t{weight});
}

void ProductPlain(const IntegerWindows& job) {
  const int8_t* weights = static_cast<const int8_t*>(job.weights);
  for (int64_t i = 0; i < job.count; ++i) {
    for (int64_t c = 0; c < job.channels; ++c) {
      uint32_t sum = static_cast<uint32_t>(job.starts[c]);
      for (int64_t run = 0; run < job.run_count; ++run) {
        const auto* x = reinterpret_cast<const uint8_t*>(job.windows[i] + job.runs[run]);
        const int8_t* w = weights + run * job.run_steps * job.channels + c;
        for (int64_t k = 0; k < job.run_steps; ++k) sum += Product(x[k], w[k * job.channels]);
      }
      StorePlain(job.epilogue, i, c, sum);
    }
  }
}

void DepthwisePlain(const IntegerDepthwise& job) {
  const int8_t* weights = static_cast<const int8_t*>(job.weights);
  for (int64_t i = 0; i < job.count; ++i) {
    const auto* image = reinterpret_cast<const uint8_t*>(job.image) + i * job.stride * job.channels;
    for (int64_t c = 0; c < job.channels; ++c) {
      uint32_t sum = static_cast<uint32_t>(job.starts[c]);
      for (int64_t x = 0; x < job.kernel_width; ++x) {
        for (int64_t y = 0; y < job.kernel_height; ++y) {
          sum += Product(image[y * job.row_bytes + x * job.dilation * job.channels + c],
                         weights[(x * job.kernel_height + y) * job.channels + c]);
        }
      }
      StorePlain(job.epilogue, i, c, sum);
    }
  }
}

}  // namespace

const IntegerKernels& PlainIntegerKernels() {
  static constexpr IntegerKernels kKernels = {.staged_signed = false,
                                              .staged_bytes = 1,
                                              .step = 1,
                                              .lanes = 1,
                                              .panel = 16,
                                              .depthwise_rows = 1,
                                              .depthwise_lanes = 1,
                                              .stage = StagePlain,
                                              .product = ProductPlain,
                                              .depthwise = DepthwisePlain};
  return kKernels;
}

}  // namespace oort
