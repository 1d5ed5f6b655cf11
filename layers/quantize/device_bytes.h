// SPDX-License-Identifier: MIT
// What operators on bytes do to single elements and windows, on a GPU: the same bits as on the CPU.
#pragma once

#include "layers/device_kernel.h"
#include "layers/pooling/device_pool.h"
#include "layers/quantize/quantize_kernels.h"

namespace oort {

/// clamp(round(x * inverse) + zero_point) as u8 or i8.
void QuantizeOnDevice(cuda::Stream&, const Tensor& x, float inverse, int32_t zero_point,
                      Tensor& y) OORT_CUDA_ONLY;

/// The same of (…, C, H, W) in the middle of (…, height, width, channels) of y; the rest is the
/// zero point.
void QuantizeImageOnDevice(cuda::Stream&, const Tensor& x, float inverse, int32_t zero_point,
                           Tensor& y) OORT_CUDA_ONLY;

/// (q - zero_points[c]) * scales[c], of which there are one or one for each slice c of an axis with
/// `inner` elements each.
struct DeviceDequantize {
  Tensor scales, zero_points;  ///< f32 and i32, on the device
  int64_t inner = 1;
};
void DequantizeOnDevice(cuda::Stream&, const Tensor& x, const DeviceDequantize&,
                        Tensor& y) OORT_CUDA_ONLY;

void AddBytesOnDevice(cuda::Stream&, const ByteSum& sum, int64_t count) OORT_CUDA_ONLY;

/// The second factor is repeated: element (i, j, k) of the product meets (i, k) of it, for `times`
/// of j and `inner` of k.
void MultiplyBytesOnDevice(cuda::Stream&, const ByteProduct& product, int64_t count, int64_t times,
                           int64_t inner) OORT_CUDA_ONLY;

/// `table` at each byte; 256 bytes on the device.
void ByteTableOnDevice(cuda::Stream&, const Tensor& x, const Tensor& table,
                       Tensor& y) OORT_CUDA_ONLY;

/// Means of bytes under windows.
struct DeviceByteMeans {
  DevicePool pool;
  int64_t channels = 1, in_channel = 1, in_pixel = 1;  ///< distances in the image, in bytes
  int64_t out_channel = 1, out_pixel = 1;
  double in_scale = 1, out_scale = 1;
  int32_t in_zero_point = 0, out_zero_point = 0;
  float low = 0, high = 0;
};
void MeansOfBytesOnDevice(cuda::Stream&, const DeviceByteMeans&, const Tensor& x,
                          Tensor& y) OORT_CUDA_ONLY;

}  // namespace oort
