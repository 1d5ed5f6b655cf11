// SPDX-License-Identifier: MIT
#include "cpu/activation_epilogue.h"
#include "layers/quantize/quantize_kernels.h"
#if defined(OORT_ISA_neon)
#include "layers/quantize/quantize_neon.h"
#endif

namespace oort::OORT_ISA {
namespace {

/// Adding and subtracting it rounds numbers below 2^22 to integers, half to even.
constexpr float kRounding = 12582912.0f;

/// Limits are integers, so that clamping before rounding gives what clamping after it would.
template <typename T>
void QuantizeAs(const float* x, int64_t count, float inverse, int32_t zero_point, float low,
                float high, T* bytes) {
  int64_t i = 0;
#if defined(OORT_ISA_neon)
  i = QuantizeSixteens(x, count, inverse, zero_point, low, high, reinterpret_cast<uint8_t*>(bytes));
#endif
  for (; i < count; ++i) {
    float value = x[i] * inverse;
    value = value == value ? value : 0.0f;  // what is no number becomes the zero point
    value = value > low ? value : low;
    value = value < high ? value : high;
    bytes[i] = static_cast<T>(static_cast<int32_t>((value + kRounding) - kRounding) + zero_point);
  }
}

void Quantize(const float* x, int64_t count, float inverse, int32_t zero_point, int32_t least,
              int32_t most, void* bytes) {
  const float low = static_cast<float>(least - zero_point);
  const float high = static_cast<float>(most - zero_point);
  if (least < 0) {
    QuantizeAs(x, count, inverse, zero_point, low, high, static_cast<int8_t*>(bytes));
  } else {
    QuantizeAs(x, count, inverse, zero_point, low, high, static_cast<uint8_t*>(bytes));
  }
}

template <typename T>
void Dequantize(const T* bytes, int64_t count, float scale, int32_t zero_point, float* y) {
  for (int64_t i = 0; i < count; ++i) {
    y[i] = static_cast<float>(static_cast<int32_t>(bytes[i]) - zero_point) * scale;
  }
}

void Add(const ByteSum& sum, int64_t count) {
  int64_t i = 0;
#if defined(OORT_ISA_neon)
  i = AddSixteens(sum, count);
#endif
  for (; i < count; ++i) {
    const float a = static_cast<float>(static_cast<uint8_t>(sum.a[i] ^ sum.flip_a));
    const float b = static_cast<float>(static_cast<uint8_t>(sum.b[i] ^ sum.flip_b));
    float value = __builtin_fmaf(a, sum.scale_a, __builtin_fmaf(b, sum.scale_b, sum.rest));
    value = value > sum.low ? value : sum.low;
    value = value < sum.high ? value : sum.high;
    const int32_t rounded = static_cast<int32_t>((value + kRounding) - kRounding) + sum.zero_point;
    sum.out[i] = static_cast<uint8_t>(static_cast<uint8_t>(rounded) ^ sum.flip_out);
  }
}

void Multiply(const ByteProduct& product, int64_t count) {
  int64_t i = 0;
#if defined(OORT_ISA_neon)
  i = MultiplySixteens(product, count);
#endif
  for (; i < count; ++i) {
    const int32_t a = static_cast<uint8_t>(product.a[i] ^ product.flip_a) - product.zero_a;
    const int32_t b = static_cast<uint8_t>(product.b[i] ^ product.flip_b) - product.zero_b;
    float value = static_cast<float>(a * b) * product.scale;
    value = value > product.low ? value : product.low;
    value = value < product.high ? value : product.high;
    const int32_t rounded =
        static_cast<int32_t>((value + kRounding) - kRounding) + product.zero_point;
    product.out[i] = static_cast<uint8_t>(static_cast<uint8_t>(rounded) ^ product.flip_out);
  }
}

void LookUp(const float* x, int64_t count, float inverse, float low, float high,
            const uint8_t* table, uint8_t* bytes) {
  constexpr int64_t kBlock = 64;
  int32_t places[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t some = count - begin < kBlock ? count - begin : kBlock;
    for (int64_t i = 0; i < some; ++i) {
      float value = x[begin + i] * inverse;
      value = value > low ? value : low;
      value = value < high ? value : high;
      places[i] = static_cast<int32_t>((value + kRounding) - kRounding);
    }
    for (int64_t i = 0; i < some; ++i) bytes[begin + i] = table[places[i]];
  }
}

void ActivateNumbers(const ActivationSpec& spec, float* x, int count) {
  ActivateInPlace(spec, x, count);
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(QuantizeKernels, {.quantize = OORT_ISA::Quantize,
                                      .dequantize_u8 = OORT_ISA::Dequantize<uint8_t>,
                                      .dequantize_i8 = OORT_ISA::Dequantize<int8_t>,
                                      .add = OORT_ISA::Add,
                                      .multiply = OORT_ISA::Multiply,
                                      .look_up = OORT_ISA::LookUp,
                                      .activate = OORT_ISA::ActivateNumbers})
