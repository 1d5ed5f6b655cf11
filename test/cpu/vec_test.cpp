// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "test/cpu/vec_ops.h"

namespace oort {
namespace {

const std::vector<float> kValues = {0.0f,  -0.0f, 1.0f,    -1.0f,      0.5f,       1.5f,   2.5f,
                                    -0.5f, -1.5f, -2.5f,   3.7f,       -3.7f,      1e-40f, -1e-40f,
                                    1e30f, -7e7f, 8388609, 4194303.5f, 2.4999998f, kInf,   -kInf,
                                    kNan,  1e-3f, 1234.5f, -1234.5f};

bool Same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof(a)) == 0;
}

template <typename Check>
void ForEachIsa(Check check) {
  for (Isa isa : SupportedIsas()) {
    SCOPED_TRACE(std::string(Name(isa)));
    check(VecOpKernelsFor(isa));
  }
}

/// Every tail length, so that partial loads and stores of each width are met.
template <typename Function>
void ExpectUnary(UnaryKernel VecOpKernels::*kernel, Function expected,
                 const std::vector<float>& values = kValues) {
  ForEachIsa([&](const VecOpKernels& kernels) {
    for (size_t count = 0; count <= values.size(); ++count) {
      std::vector<float> y(values.size() + 1, 77.0f);
      (kernels.*kernel)(values.data(), y.data(), static_cast<int64_t>(count));
      for (size_t i = 0; i < count; ++i) {
        EXPECT_TRUE(Same(y[i], expected(values[i])))
            << "of " << values[i] << ": " << y[i] << ", expected " << expected(values[i]);
      }
      EXPECT_EQ(y[count], 77.0f) << "wrote past element " << count;
    }
  });
}

template <typename Function>
void ExpectBinary(BinaryKernel VecOpKernels::*kernel, Function expected) {
  std::vector<float> a, b;
  for (float x : kValues) {
    for (float y : kValues) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  ForEachIsa([&](const VecOpKernels& kernels) {
    std::vector<float> y(a.size());
    (kernels.*kernel)(a.data(), b.data(), y.data(), static_cast<int64_t>(a.size()));
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_TRUE(Same(y[i], expected(a[i], b[i])))
          << "of " << a[i] << ", " << b[i] << ": " << y[i] << ", expected " << expected(a[i], b[i]);
    }
  });
}

TEST(Vec, Rounds) {
  ExpectUnary(&VecOpKernels::floor, [](float x) { return std::floor(x); });
  ExpectUnary(&VecOpKernels::ceil, [](float x) { return std::ceil(x); });
  ExpectUnary(&VecOpKernels::trunc, [](float x) { return std::trunc(x); });
  ExpectUnary(&VecOpKernels::round, [](float x) { return std::nearbyint(x); });
  ExpectUnary(&VecOpKernels::to_int, [](float x) { return std::nearbyint(x) + 0.0f; },
              {0.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 3.7f, -3.7f, 8388609.0f, -2e9f, 2e9f});
}

TEST(Vec, HasUnaryOperations) {
  ExpectUnary(&VecOpKernels::abs, [](float x) { return std::fabs(x); });
  ExpectUnary(&VecOpKernels::negate, [](float x) { return -x; });
  ExpectUnary(&VecOpKernels::sqrt, [](float x) { return std::sqrt(x); });
  ExpectUnary(&VecOpKernels::is_nan, [](float x) { return std::isnan(x) ? 1.0f : 0.0f; });
}

TEST(Vec, HasArithmetic) {
  ExpectBinary(&VecOpKernels::add, [](float a, float b) { return a + b; });
  ExpectBinary(&VecOpKernels::subtract, [](float a, float b) { return a - b; });
  ExpectBinary(&VecOpKernels::multiply, [](float a, float b) { return a * b; });
  ExpectBinary(&VecOpKernels::divide, [](float a, float b) { return a / b; });
  ExpectBinary(&VecOpKernels::copy_sign, [](float a, float b) { return std::copysign(a, b); });
}

TEST(Vec, MinAndMaxPassNanOn) {
  const auto min = [](float a, float b) {
    return std::isnan(a) || std::isnan(b) ? kNan : std::min(a, b) + 0.0f;
  };
  const auto max = [](float a, float b) {
    return std::isnan(a) || std::isnan(b) ? kNan : std::max(a, b) + 0.0f;
  };
  // Which of two zeros comes out is left open.
  ForEachIsa([&](const VecOpKernels& kernels) {
    for (float a : kValues) {
      for (float b : kValues) {
        float lo, hi, fast_lo, fast_hi;
        kernels.min(&a, &b, &lo, 1);
        kernels.max(&a, &b, &hi, 1);
        kernels.fast_min(&a, &b, &fast_lo, 1);
        kernels.fast_max(&a, &b, &fast_hi, 1);
        EXPECT_TRUE(Same(lo + 0.0f, min(a, b))) << "min of " << a << ", " << b << ": " << lo;
        EXPECT_TRUE(Same(hi + 0.0f, max(a, b))) << "max of " << a << ", " << b << ": " << hi;
        if (!std::isnan(a)) {
          EXPECT_TRUE(Same(fast_lo + 0.0f, min(a, b))) << a << ", " << b << ": " << fast_lo;
          EXPECT_TRUE(Same(fast_hi + 0.0f, max(a, b))) << a << ", " << b << ": " << fast_hi;
        }
      }
    }
  });
}

TEST(Vec, Compares) {
  ExpectBinary(&VecOpKernels::equal, [](float a, float b) { return a == b ? 1.0f : 0.0f; });
  ExpectBinary(&VecOpKernels::not_equal, [](float a, float b) { return a != b ? 1.0f : 0.0f; });
  ExpectBinary(&VecOpKernels::less, [](float a, float b) { return a < b ? 1.0f : 0.0f; });
  ExpectBinary(&VecOpKernels::less_equal, [](float a, float b) { return a <= b ? 1.0f : 0.0f; });
  ExpectBinary(&VecOpKernels::greater, [](float a, float b) { return a > b ? 1.0f : 0.0f; });
  ExpectBinary(&VecOpKernels::greater_equal, [](float a, float b) { return a >= b ? 1.0f : 0.0f; });
}

TEST(Vec, CombinesMasks) {
  ForEachIsa([](const VecOpKernels& kernels) {
    const size_t width = static_cast<size_t>(kernels.width);
    for (int pattern = 0; pattern < 3; ++pattern) {  // p nowhere, in the first lane, everywhere
      std::vector<float> p(width, pattern == 2 ? 1.0f : -1.0f), q(width), y(width);
      if (pattern == 1) p[0] = 1.0f;
      for (size_t i = 0; i < width; ++i) q[i] = i % 2 == 0 ? 1.0f : -1.0f;
      kernels.logic(p.data(), q.data(), y.data(), kernels.width);
      const bool any = pattern > 0, all = pattern == 2 || (pattern == 1 && width == 1);
      for (size_t i = 0; i < width; ++i) {
        const bool a = p[i] > 0, b = q[i] > 0;
        const int expected = (a && b) + 2 * (a || b) + 4 * !a + 8 * any + 16 * all + 32 * !any;
        EXPECT_EQ(static_cast<int>(y[i]), expected) << "pattern " << pattern << ", lane " << i;
      }
    }
  });
}

TEST(Vec, CombinesBits) {
  ExpectBinary(&VecOpKernels::bits, [](float a, float b) {
    uint32_t x, y;
    std::memcpy(&x, &a, sizeof(x));
    std::memcpy(&y, &b, sizeof(y));
    const uint32_t r = (x & y) | ((x ^ y) & ~x);
    float result;
    std::memcpy(&result, &r, sizeof(result));
    return result;
  });
}

TEST(Vec, MultipliesAndAdds) {
  ForEachIsa([](const VecOpKernels& kernels) {
    const size_t width = static_cast<size_t>(kernels.width);
    std::vector<float> a(width), b(width), c(width), fma(width), fnma(width);
    for (size_t i = 0; i < width; ++i) {
      a[i] = static_cast<float>(i) + 1.25f;
      b[i] = 3.5f - static_cast<float>(i);
      c[i] = 100.0f * static_cast<float>(i);
    }
    kernels.fma(a.data(), b.data(), c.data(), fma.data(), fnma.data());
    for (size_t i = 0; i < width; ++i) {
      EXPECT_EQ(fma[i], a[i] * b[i] + c[i]);
      EXPECT_EQ(fnma[i], c[i] - a[i] * b[i]);
    }
  });
}

TEST(Vec, Reduces) {
  ForEachIsa([](const VecOpKernels& kernels) {
    const size_t width = static_cast<size_t>(kernels.width);
    for (size_t special = 0; special < width; ++special) {
      std::vector<float> x(width);
      float sum = 0;
      for (size_t i = 0; i < width; ++i) {
        x[i] = static_cast<float>(i % 5) - 1.0f;
        if (i == special) x[i] = 50.0f;
        sum += x[i];
      }
      float results[3];
      kernels.reduce(x.data(), results);
      EXPECT_EQ(results[0], sum);
      EXPECT_EQ(results[1], 50.0f);
      x[special] = -50.0f;
      kernels.reduce(x.data(), results);
      EXPECT_EQ(results[2], -50.0f);
      x[special] = kNan;
      kernels.reduce(x.data(), results);
      EXPECT_TRUE(std::isnan(results[0]) && std::isnan(results[1]) && std::isnan(results[2]))
          << "NaN in lane " << special << " is lost";
    }
  });
}

TEST(Vec, LoadsEveryOtherElement) {
  ForEachIsa([](const VecOpKernels& kernels) {
    const size_t width = static_cast<size_t>(kernels.width);
    std::vector<float> x(2 * width), y(width);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    kernels.load_even(x.data(), y.data());
    for (size_t i = 0; i < width; ++i) EXPECT_EQ(y[i], x[2 * i]);
  });
}

TEST(Vec, HasWrappingIntegers) {
  ForEachIsa([](const VecOpKernels& kernels) {
    const size_t width = static_cast<size_t>(kernels.width);
    for (int32_t value : {0, 1, -1, 13, -13, INT32_MAX, INT32_MIN, 1 << 29}) {
      std::vector<int32_t> x(width, value), r(width * 8);
      kernels.integers(x.data(), r.data());
      const uint32_t u = static_cast<uint32_t>(value);
      const int32_t expected[8] = {static_cast<int32_t>(u << 3),
                                   static_cast<int32_t>(u >> 3),
                                   value >> 3,
                                   static_cast<int32_t>(u + INT32_MAX),
                                   static_cast<int32_t>(u - INT32_MAX),
                                   (value & 12) ^ 5,
                                   value | 3,
                                   value > 0 ? value : -7};
      for (size_t i = 0; i < r.size(); ++i) {
        EXPECT_EQ(r[i], expected[i / width]) << "of " << value << ", operation " << i / width;
      }
    }
  });
}

}  // namespace
}  // namespace oort
