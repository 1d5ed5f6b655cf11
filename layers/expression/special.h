// SPDX-License-Identifier: MIT
// Special functions of real numbers, computed in f64 to about 1e-13.
#pragma once

namespace oort::expression::special {

double Digamma(double x);
/// exp(x²) erfc(x)
double Erfcx(double x);
double Erfinv(double x);
/// Modified Bessel functions of the first kind; the scaled ones are times exp(-|x|).
double BesselI0(double x);
double BesselI0Scaled(double x);
double BesselI1(double x);
double BesselI1Scaled(double x);
/// The logarithm of the normal distribution, and the inverse of the distribution.
double LogNdtr(double x);
double Ndtri(double p);
/// sin(πx) / (πx)
double Sinc(double x);
/// Hurwitz' zeta function: sum of (q+k)^-s.
double Zeta(double s, double q);
/// The regularized incomplete gamma functions: lower and upper.
double Igamma(double a, double x);
double Igammac(double a, double x);

}  // namespace oort::expression::special
