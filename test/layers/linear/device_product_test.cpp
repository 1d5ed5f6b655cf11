// SPDX-License-Identifier: MIT
#include "layers/linear/device_product.h"

#include <gtest/gtest.h>

#include "cuda/device.h"
#include "kit/errors.h"

namespace oort {
namespace {

/// What .cu files define, the build writes itself where it has no CUDA.
TEST(DeviceProduct, ABuildWithoutCudaSaysSo) {
  if (cuda::BuiltIn()) GTEST_SKIP() << "this build has CUDA";
  testing::ExpectThrows([] { RequireProductsOnDevice(); }, ErrorCode::kUnsupported,
                        "this build has no CUDA");
  testing::ExpectThrows([] { ProductBytesOnDevice({}, 0); }, ErrorCode::kUnsupported,
                        "this build has no CUDA");
}

}  // namespace
}  // namespace oort
