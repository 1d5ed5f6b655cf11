// SPDX-License-Identifier: MIT
#include "layers/layout/transpose_planes.h"
#include "layers/pooling/nhwc/device_nhwc_pool.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "device_case.h"

namespace oort::cuda {
namespace {

/// The same in f64.
std::vector<double> Pool(const NhwcPoolCall& call, const Tensor& image) {
  std::vector<double> results;
  const auto range = [&](const PoolWalk& walk, int64_t i) {
    std::vector<int64_t> inside;
    if (call.adaptive) {
      for (int64_t j = i * walk.in / walk.out; j * walk.out < (i + 1) * walk.in; ++j) {
        inside.push_back(j);
      }
    }
    for (int64_t j = 0; !call.adaptive && j < walk.kernel; ++j) {
      const int64_t at = i * walk.stride - walk.pad + j * walk.dilation;
      if (at >= 0 && at < walk.in) inside.push_back(at);
    }
    return inside;
  };
  const auto padded = [&](const PoolWalk& walk, int64_t i) {
    const int64_t start = i * walk.stride - walk.pad;
    return std::min<int64_t>(start + walk.kernel, walk.in + walk.pad) - start;
  };
  for (int64_t n = 0; n < call.batch; ++n) {
    for (int64_t y = 0; y < call.height.out; ++y) {
      for (int64_t x = 0; x < call.width.out; ++x) {
        for (int64_t c = 0; c < call.channels; ++c) {
          double sum = 0, most = -std::numeric_limits<double>::infinity();
          const auto rows = range(call.height, y), columns = range(call.width, x);
          for (int64_t r : rows) {
            for (int64_t s : columns) {
              const double value = image.data<
                  float>()[((n * call.height.in + r) * call.width.in + s) * call.channels + c];
              sum += value;
              most = std::max(most, value);
            }
          }
          const auto count = call.adaptive || !call.include_pad
                                 ? static_cast<int64_t>(rows.size() * columns.size())
                                 : padded(call.height, y) * padded(call.width, x);
          results.push_back(
              call.max ? most
                       : sum / static_cast<double>(call.divisor != 0 ? call.divisor : count));
        }
      }
    }
  }
  return results;
}

void ExpectPool(NhwcPoolCall call, DType dtype, const std::string& what) {
  SCOPED_TRACE(what);
  Stream stream(0);
  const Tensor image =
      RandomValues(dtype, {call.batch, call.height.in, call.width.in, call.channels}, 7);
  const Tensor in = OnDevice(image, dtype);
  Tensor out =
      Poisoned(stream, dtype, {call.batch, call.height.out, call.width.out, call.channels});
  call.in = in.raw();
  call.out = out.raw();
  PoolPixels(stream, call, dtype);
  ExpectNear(Fetch(stream, out), Pool(call, image), ToleranceOf(dtype));
}

class CudaNhwcPool : public ::testing::TestWithParam<DType> {};

TEST_P(CudaNhwcPool, Windows) {
  OORT_SKIP_WITHOUT_GPU();
  for (int channels : {3, 8, 40}) {
    for (bool max : {true, false}) {
      for (int kernel : {2, 3, 5}) {
        NhwcPoolCall call;
        call.batch = 2;
        call.channels = channels;
        call.height = {13, (13 + 2 - kernel) / 2 + 1, kernel, 2, 1, 1};
        call.width = {9, 9 + 2 - kernel + 1, kernel, 1, 1, 1};
        call.max = max;
        const std::string what = std::to_string(channels) + " channels, kernel " +
                                 std::to_string(kernel) + (max ? ", largest" : ", mean");
        ExpectPool(call, GetParam(), what);
        call.include_pad = false;
        ExpectPool(call, GetParam(), what + " without padding");
        call.divisor = 7;
        ExpectPool(call, GetParam(), what + " by 7");
      }
    }
  }
}

TEST_P(CudaNhwcPool, AdaptiveOnes) {
  OORT_SKIP_WITHOUT_GPU();
  for (int channels : {5, 16, 2048}) {
    for (int out : {1, 2, 3, 9}) {
      for (bool max : {true, false}) {
        NhwcPoolCall call;
        call.batch = 3;
        call.channels = channels;
        call.height = {7, out};
        call.width = {8, out};
        call.adaptive = true;
        call.max = max;
        ExpectPool(call, GetParam(), std::to_string(channels) + " to " + std::to_string(out));
      }
    }
  }
}

TEST_P(CudaNhwcPool, TransposesAndConverts) {
  OORT_SKIP_WITHOUT_GPU();
  for (DType from : {DType::kF32, GetParam()}) {
    for (int64_t rows : {1, 3, 8, 9, 70}) {
      for (int64_t extra : {0, 1}) {
        Stream stream(0);
        const int64_t columns = 45, padded = rows + extra;
        const Tensor values = RandomValues(from, {2, rows, columns}, 3);
        const Tensor in = OnDevice(values, from);
        Tensor out = Poisoned(stream, GetParam(), {2, columns, padded});
        TransposePlanes(stream, {in.raw(), out.raw(), 2, rows, columns, padded}, from, GetParam());
        const Tensor rounded = values.To(GetParam()).To(DType::kF32);
        std::vector<double> expected;
        for (int64_t n = 0; n < 2; ++n) {
          for (int64_t c = 0; c < columns; ++c) {
            for (int64_t r = 0; r < padded; ++r) {
              expected.push_back(r < rows ? rounded.data<float>()[(n * rows + r) * columns + c]
                                          : 0.0);
            }
          }
        }
        ExpectNear(Fetch(stream, out), expected, 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(CudaNhwcPool, CudaNhwcPool,
                         ::testing::Values(DType::kF32, DType::kF16, DType::kBF16));

}  // namespace
}  // namespace oort::cuda
