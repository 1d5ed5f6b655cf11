// SPDX-License-Identifier: MIT
#include "layers/expression/special.h"

#include <cmath>
#include <limits>

namespace oort::expression::special {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
// Bernoulli numbers B2, B4, …
constexpr double kBernoulli[] = {1.0 / 6,       -1.0 / 30,      1.0 / 42, -1.0 / 30,
                                 5.0 / 66,      -691.0 / 2730,  7.0 / 6,  -3617.0 / 510,
                                 43867.0 / 798, -174611.0 / 330};

double LogGamma(double x) {
#ifdef __GLIBC__
  int sign;
  return ::lgamma_r(x, &sign);
#else
  return std::lgamma(x);
#endif
}

/// exp(-|x|) I_order(|x|) from its series for small x, and from its expansion at infinity.
double ScaledBessel(double x, int order) {
  const double y = std::fabs(x);
  if (std::isnan(y)) return y;
  if (std::isinf(y)) return 0;
  if (y < 20) {
    const double quarter = y * y / 4;
    double term = order == 0 ? 1 : y / 2, sum = term;
    for (int k = 1; k < 200 && term > sum * 1e-17; ++k) {
      term *= quarter / (static_cast<double>(k) * (k + order));
      sum += term;
    }
    return sum * std::exp(-y);
  }
  const double mu = 4.0 * order * order;
  double term = 1, sum = 1;
  for (int k = 1; k < 30; ++k) {
    const double odd = 2.0 * k - 1;
    const double next = -term * (mu - odd * odd) / (k * 8.0 * y);
    if (std::fabs(next) >= std::fabs(term)) break;  // the expansion does not converge
    term = next;
    sum += term;
  }
  return sum / std::sqrt(2 * kPi * y);
}

/// The y > 0 with erfc(y) = q, for q in (0, 1].
double ErfcInverse(double q) {
  // A rough start, then Halley's steps.
  const double a = 0.147, log = std::log(q * (2 - q)), b = 2 / (kPi * a) + log / 2;
  double y = std::sqrt(std::sqrt(b * b - log / a) - b);
  for (int i = 0; i < 4; ++i) {
    const double step = (q - std::erfc(y)) / (2 / std::sqrt(kPi) * std::exp(-y * y));
    const double next = y - step / (1 + y * step);
    if (!std::isfinite(next)) break;
    y = next;
  }
  return y;
}

}  // namespace

double Digamma(double x) {
  if (x == 0) return std::copysign(kInf, -x);
  if (std::isinf(x)) return x > 0 ? x : kNan;
  double result = 0;
  if (x < 0) {
    if (x == std::floor(x)) return kNan;
    const double fraction = x - std::floor(x);
    return Digamma(1 - x) - kPi / std::tan(kPi * fraction);
  }
  while (x < 12) {
    result -= 1 / x;
    x += 1;
  }
  const double inverse = 1 / (x * x);
  double power = inverse, series = 0;
  for (int k = 0; k < 8; ++k) {
    series += kBernoulli[k] / (2.0 * (k + 1)) * power;
    power *= inverse;
  }
  return result + std::log(x) - 0.5 / x - series;
}

double Erfcx(double x) {
  if (x < 0) return 2 * std::exp(x * x) - Erfcx(-x);
  if (x < 8) return std::exp(x * x) * std::erfc(x);
  if (std::isinf(x)) return 0;
  // The expansion at infinity.
  const double inverse = 1 / (2 * x * x);
  double term = 1, sum = 1;
  for (int k = 1; k < 20; ++k) {
    term *= -(2.0 * k - 1) * inverse;
    sum += term;
  }
  return sum / (x * std::sqrt(kPi));
}

double Erfinv(double x) {
  if (!(x >= -1 && x <= 1)) return kNan;
  if (x == 1 || x == -1) return std::copysign(kInf, x);
  if (x < 0) return -Erfinv(-x);
  if (x > 0.5) return ErfcInverse(1 - x);
  double y = x * 0.8862269254527580;  // half the root of pi
  for (int i = 0; i < 6; ++i) {
    const double step = (std::erf(y) - x) / (2 / std::sqrt(kPi) * std::exp(-y * y));
    y -= step / (1 + y * step);
  }
  return y;
}

double BesselI0Scaled(double x) { return ScaledBessel(x, 0); }
double BesselI1Scaled(double x) { return std::copysign(ScaledBessel(x, 1), x); }

namespace {
/// Times exp(|x|), in two steps where one would overflow.
double Unscaled(double scaled, double x) {
  const double y = std::fabs(x);
  if (std::isinf(y)) return std::copysign(kInf, scaled);
  return y < 700 ? scaled * std::exp(y) : scaled * std::exp(y / 2) * std::exp(y / 2);
}
}  // namespace

double BesselI0(double x) { return Unscaled(BesselI0Scaled(x), x); }
double BesselI1(double x) { return Unscaled(BesselI1Scaled(x), x); }

double LogNdtr(double x) {
  const double t = x / std::sqrt(2.0);
  if (x < -1) return std::log(Erfcx(-t) / 2) - t * t;
  return std::log1p(-std::erfc(t) / 2);
}

double Ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return kNan;
  if (p == 0) return -kInf;
  if (p == 1) return kInf;
  return p <= 0.5 ? -std::sqrt(2.0) * ErfcInverse(2 * p)
                  : std::sqrt(2.0) * ErfcInverse(2 * (1 - p));
}

double Sinc(double x) {
  if (x == 0) return 1;
  return std::sin(kPi * x) / (kPi * x);
}

double Zeta(double s, double q) {
  if (s == 1) return kInf;
  if (!(s > 1) || std::isnan(q)) return kNan;
  if (q <= 0) {
    if (q == std::floor(q)) return kInf;
    if (s != std::floor(s)) return kNan;
    if (q < -1e6) return kNan;  // too many terms; torch's answer has no digits there either
  }
  double sum = 0, a = q;
  while (a < 12) {
    sum += std::pow(a, -s);
    a += 1;
  }
  // Euler and Maclaurin for the rest.
  const double power = std::pow(a, -s);
  if (power == 0) return sum;
  sum += power * a / (s - 1) + power / 2;
  double factor = s * power / a, factorial = 2;
  for (int k = 0; k < 10; ++k) {
    const double term = kBernoulli[k] / factorial * factor;
    sum += term;
    if (std::fabs(term) < std::fabs(sum) * 1e-17) break;
    const double next = 2.0 * k + 1;
    factor *= (s + next) * (s + next + 1) / (a * a);
    factorial *= (next + 2) * (next + 3);
  }
  return sum;
}

double Igamma(double a, double x) {
  if (!(a >= 0) || !(x >= 0)) return kNan;
  if (a == 0) return x > 0 ? 1 : kNan;
  if (x == 0) return 0;
  if (std::isinf(a)) return std::isinf(x) ? kNan : 0;
  if (std::isinf(x)) return 1;
  if (x > a + 1) return 1 - Igammac(a, x);
  double term = 1 / a, sum = term;
  for (int k = 1; k < 5000 && term > sum * 1e-17; ++k) {
    term *= x / (a + k);
    sum += term;
  }
  return sum * std::exp(a * std::log(x) - x - LogGamma(a));
}

double Igammac(double a, double x) {
  if (!(a >= 0) || !(x >= 0)) return kNan;
  if (a == 0) return x > 0 ? 0 : kNan;
  if (x == 0) return 1;
  if (std::isinf(a)) return std::isinf(x) ? kNan : 1;
  if (std::isinf(x)) return 0;
  if (x <= a + 1) return 1 - Igamma(a, x);
  // A continued fraction, from the front.
  const double tiny = 1e-300;
  double b = x + 1 - a, c = 1 / tiny, d = 1 / b, fraction = d;
  for (int k = 1; k < 5000; ++k) {
    const double n = -k * (k - a);
    b += 2;
    d = n * d + b;
    c = b + n / c;
    d = 1 / (std::fabs(d) < tiny ? tiny : d);
    c = std::fabs(c) < tiny ? tiny : c;
    fraction *= d * c;
    if (std::fabs(d * c - 1) < 1e-16) break;
  }
  return fraction * std::exp(a * std::log(x) - x - LogGamma(a));
}

}  // namespace oort::expression::special
