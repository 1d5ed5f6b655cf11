// SPDX-License-Identifier: MIT
// The functions of cpu/vec_math.h against double precision, over floats of every magnitude.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "test/cpu/vec_ops.h"

namespace oort {
namespace {

/// Distance from the exact result in units of the last place of the float nearest to it.
double Ulps(float got, double exact) {
  const float nearest = static_cast<float>(exact);
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) == std::isnan(got) ? 0 : 1e30;
  if (std::isinf(nearest) || std::isinf(got)) return got == nearest ? 0 : 1e30;
  const double magnitude = std::fabs(static_cast<double>(nearest));
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const double ulp = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::fabs(static_cast<double>(got) - exact) / ulp;
}

/// Floats spread evenly over bit patterns (so over magnitudes) and over [-100, 100].
std::vector<float> Arguments() {
  std::vector<float> x = {0.0f,    -0.0f,           kInf,      -kInf,     kNan,       1e-45f,
                          -1e-45f, 1.17549435e-38f, 88.72283f, 88.72284f, -87.33655f, -103.97208f,
                          -104.0f, 3.4028235e38f};
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 21013) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (int i = -200000; i <= 200000; ++i) x.push_back(static_cast<float>(i) * 5e-4f);
  return x;
}

using Reference = double (*)(double);

void ExpectAccurate(UnaryKernel VecMathKernels::*kernel, Reference reference, double ulps) {
  const std::vector<float> x = Arguments();
  std::vector<double> exact(x.size());
  for (size_t i = 0; i < x.size(); ++i) exact[i] = reference(static_cast<double>(x[i]));
  for (Isa isa : SupportedIsas()) {
    SCOPED_TRACE(std::string(Name(isa)));
    std::vector<float> y(x.size());
    (VecMathKernelsFor(isa).*kernel)(x.data(), y.data(), static_cast<int64_t>(x.size()));
    double worst = -1;
    size_t where = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = Ulps(y[i], exact[i]);
      if (error > worst) {
        worst = error;
        where = i;
      }
    }
    EXPECT_LE(worst, ulps) << "at " << x[where] << ": " << y[where] << ", exact " << exact[where];
  }
}

TEST(VecMath, Exp) {
  ExpectAccurate(
      &VecMathKernels::exp, [](double x) { return std::exp(x); }, 1.5);
}
TEST(VecMath, Expm1) {
  ExpectAccurate(
      &VecMathKernels::expm1, [](double x) { return std::expm1(x); }, 2);
}
TEST(VecMath, Log) {
  ExpectAccurate(
      &VecMathKernels::log, [](double x) { return std::log(x); }, 1.5);
}
TEST(VecMath, Log1p) {
  ExpectAccurate(
      &VecMathKernels::log1p, [](double x) { return std::log1p(x); }, 2);
}
TEST(VecMath, Tanh) {
  ExpectAccurate(
      &VecMathKernels::tanh, [](double x) { return std::tanh(x); }, 3);
}
TEST(VecMath, Sigmoid) {
  // Where exp(-x) is beyond the floats the result is 0, in torch as well.
  ExpectAccurate(
      &VecMathKernels::sigmoid,
      [](double x) { return x < -89.0694127 ? 0 : 1 / (1 + std::exp(-x)); }, 2.5);
}
TEST(VecMath, Erf) {
  ExpectAccurate(
      &VecMathKernels::erf, [](double x) { return std::erf(x); }, 2);
}
TEST(VecMath, Sin) {
  ExpectAccurate(
      &VecMathKernels::sin, [](double x) { return std::sin(x); }, 2.5);
}
TEST(VecMath, Cos) {
  ExpectAccurate(
      &VecMathKernels::cos, [](double x) { return std::cos(x); }, 2.5);
}
TEST(VecMath, Tan) {
  ExpectAccurate(
      &VecMathKernels::tan, [](double x) { return std::tan(x); }, 4);
}

/// |y - exact| <= bound(x, exact); what is not finite must be so in both.
template <typename Exact, typename Bound>
void ExpectWithin(UnaryKernel VecMathKernels::*kernel, Exact exact_of, Bound bound) {
  const std::vector<float> x = Arguments();
  for (Isa isa : SupportedIsas()) {
    SCOPED_TRACE(std::string(Name(isa)));
    std::vector<float> y(x.size());
    (VecMathKernelsFor(isa).*kernel)(x.data(), y.data(), static_cast<int64_t>(x.size()));
    int failures = 0;
    for (size_t i = 0; i < x.size() && failures < 5; ++i) {
      const double at = static_cast<double>(x[i]), exact = exact_of(at),
                   got = static_cast<double>(y[i]);
      const bool good = std::isfinite(exact) ? std::fabs(got - exact) <= bound(at, exact)
                        : std::isnan(exact)  ? std::isnan(got)
                                             : got == exact;
      if (!good) ++failures;
      EXPECT_TRUE(good) << "at " << at << ": " << got << ", exact " << exact;
    }
  }
}

TEST(VecMath, NormalCdf) {
  ExpectWithin(
      &VecMathKernels::normal_cdf, [](double x) { return 0.5 * std::erfc(-x * std::sqrt(0.5)); },
      [](double x, double exact) {
        if (x > -1) return 2.5e-7 * exact;
        return x > -4 ? 1e-4 * exact : 5e-9;
      });
}

TEST(VecMath, Silu) {
  ExpectWithin(
      &VecMathKernels::silu,
      [](double x) { return std::isinf(x) && x < 0 ? kNan : x / (1 + std::exp(-x)); },
      [](double x, double exact) {
        return 4e-7 * std::fabs(exact) + (x < -87.3 ? 2e-36 : 2e-45);  // the first may be 0
      });
}

TEST(VecMath, RoughSilu) {
  ExpectWithin(
      &VecMathKernels::rough_silu,
      [](double x) { return std::isinf(x) && x < 0 ? kNan : x / (1 + std::exp(-x)); },
      [](double x, double exact) {
        return 1e-4 * std::fabs(exact) + (x < -87 ? 2e-36 : 2e-45);  // the first may be 0
      });
}

TEST(VecMath, KeepsTheSignOfZero) {
  for (Isa isa : SupportedIsas()) {
    const VecMathKernels& kernels = VecMathKernelsFor(isa);
    for (UnaryKernel kernel :
         {kernels.expm1, kernels.log1p, kernels.tanh, kernels.erf, kernels.sin, kernels.tan}) {
      const float x = -0.0f;
      float y = 1;
      kernel(&x, &y, 1);
      EXPECT_TRUE(y == 0 && std::signbit(y)) << Name(isa);
    }
  }
}

}  // namespace
}  // namespace oort
