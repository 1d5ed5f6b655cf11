// SPDX-License-Identifier: MIT
// Factorizations of one matrix, f64 or c128, row-major: what LAPACK does for torch, for the sizes
// that networks have. Signs follow LAPACK where a factorization is unique up to these.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <numeric>
#include <vector>

namespace oort::linalg {

inline double Conj(double x) { return x; }
inline std::complex<double> Conj(std::complex<double> x) { return std::conj(x); }
inline double RealPart(double x) { return x; }
inline double RealPart(std::complex<double> x) { return x.real(); }

/// A matrix of its own.
template <typename T>
struct Matrix {
  Matrix(int64_t row_count, int64_t column_count)
      : rows(row_count),
        columns(column_count),
        values(static_cast<size_t>(row_count * column_count)) {}
  static Matrix Identity(int64_t n) {
    Matrix result(n, n);
    for (int64_t i = 0; i < n; ++i) result(i, i) = 1;
    return result;
  }
  T& operator()(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
  const T& operator()(int64_t i, int64_t j) const {
    return values[static_cast<size_t>(i * columns + j)];
  }
  Matrix Adjoint() const {
    Matrix result(columns, rows);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) result(j, i) = Conj((*this)(i, j));
    }
    return result;
  }
  Matrix FirstColumns(int64_t count) const {
    Matrix result(rows, count);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < count; ++j) result(i, j) = (*this)(i, j);
    }
    return result;
  }

  int64_t rows, columns;
  std::vector<T> values;
};

template <typename T>
Matrix<T> operator*(const Matrix<T>& a, const Matrix<T>& b) {
  Matrix<T> result(a.rows, b.columns);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t k = 0; k < a.columns; ++k) {
      const T factor = a(i, k);
      for (int64_t j = 0; j < b.columns; ++j) result(i, j) += factor * b(k, j);
    }
  }
  return result;
}

/// L below the diagonal (ones on it), U on and above it.
struct Pivots {
  std::vector<int64_t> rows;  ///< row i was exchanged with rows[i]
  int sign = 1;
  int64_t singular = 0;  ///< 1 + the first column without a pivot
};

template <typename T>
Pivots FactorLu(Matrix<T>& a, bool pivot = true) {
  Pivots pivots;
  const int64_t count = std::min(a.rows, a.columns);
  for (int64_t k = 0; k < count; ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; pivot && i < a.rows; ++i) {
      if (std::abs(a(i, k)) > std::abs(a(best, k))) best = i;
    }
    pivots.rows.push_back(best);
    if (best != k) {
      pivots.sign = -pivots.sign;
      for (int64_t j = 0; j < a.columns; ++j) std::swap(a(k, j), a(best, j));
    }
    if (a(k, k) == T(0)) {
      if (pivots.singular == 0) pivots.singular = k + 1;
      continue;
    }
    for (int64_t i = k + 1; i < a.rows; ++i) {
      const T factor = a(i, k) /= a(k, k);
      for (int64_t j = k + 1; j < a.columns; ++j) a(i, j) -= factor * a(k, j);
    }
  }
  return pivots;
}

/// Solves A X = B in the place of B, A being one triangle.
template <typename T>
void SolveTriangle(const Matrix<T>& a, Matrix<T>& b, bool upper, bool unit) {
  for (int64_t step = 0; step < a.rows; ++step) {
    const int64_t i = upper ? a.rows - 1 - step : step;
    const int64_t from = upper ? i + 1 : 0, to = upper ? a.rows : i;
    for (int64_t j = 0; j < b.columns; ++j) {
      T sum = b(i, j);
      for (int64_t k = from; k < to; ++k) sum -= a(i, k) * b(k, j);
      b(i, j) = unit ? sum : sum / a(i, i);
    }
  }
}

template <typename T>
void SolveLu(const Matrix<T>& lu, const std::vector<int64_t>& pivots, Matrix<T>& b) {
  for (int64_t i = 0; i < lu.rows; ++i) {
    const int64_t from = pivots[static_cast<size_t>(i)];
    for (int64_t j = 0; from != i && j < b.columns; ++j) std::swap(b(i, j), b(from, j));
  }
  SolveTriangle(lu, b, false, true);
  SolveTriangle(lu, b, true, false);
}

/// The lower triangle L with L Lᴴ = A; 0, or 1 + the column where A proved not positive.
template <typename T>
int64_t FactorCholesky(Matrix<T>& a) {
  for (int64_t j = 0; j < a.rows; ++j) {
    double rest = RealPart(a(j, j));
    for (int64_t k = 0; k < j; ++k) rest -= std::norm(a(j, k));
    if (!(rest > 0)) return j + 1;
    a(j, j) = std::sqrt(rest);
    for (int64_t i = j + 1; i < a.rows; ++i) {
      T sum = a(i, j);
      for (int64_t k = 0; k < j; ++k) sum -= a(i, k) * Conj(a(j, k));
      a(i, j) = sum / a(j, j);
    }
    for (int64_t i = 0; i < j; ++i) a(i, j) = 0;
  }
  return 0;
}

/// Multiplies by H = 1 - tau v vᴴ from the left, v being column k of `vectors` below a one.
template <typename T>
void Reflect(const Matrix<T>& vectors, int64_t k, T tau, Matrix<T>& x, int64_t from_column) {
  for (int64_t j = from_column; j < x.columns; ++j) {
    T sum = x(k, j);
    for (int64_t i = k + 1; i < x.rows; ++i) sum += Conj(vectors(i, k)) * x(i, j);
    sum *= tau;
    x(k, j) -= sum;
    for (int64_t i = k + 1; i < x.rows; ++i) x(i, j) -= vectors(i, k) * sum;
  }
}

/// R on and above the diagonal, Householder's vectors below it; returns their factors.
template <typename T>
std::vector<T> FactorQr(Matrix<T>& a) {
  std::vector<T> taus;
  for (int64_t k = 0; k < std::min(a.rows, a.columns); ++k) {
    double below = 0;
    for (int64_t i = k + 1; i < a.rows; ++i) below += std::norm(a(i, k));
    const T alpha = a(k, k);
    T tau = 0;
    if (below > 0 || alpha != T(RealPart(alpha))) {
      const double length = std::sqrt(std::norm(alpha) + below);
      const double beta = std::signbit(RealPart(alpha)) ? length : -length;
      tau = (T(beta) - alpha) / beta;
      for (int64_t i = k + 1; i < a.rows; ++i) a(i, k) /= alpha - T(beta);
      Reflect(a, k, Conj(tau), a, k + 1);
      a(k, k) = beta;
    }
    taus.push_back(tau);
  }
  return taus;
}

/// The first `columns` columns of the product of the reflections.
template <typename T>
Matrix<T> ReflectionProduct(const Matrix<T>& vectors, const std::vector<T>& taus, int64_t columns) {
  Matrix<T> q(vectors.rows, columns);
  for (int64_t i = 0; i < std::min(q.rows, columns); ++i) q(i, i) = 1;
  for (size_t k = taus.size(); k-- > 0;) {
    Reflect(vectors, static_cast<int64_t>(k), taus[k], q, 0);
  }
  return q;
}

/// The angle that makes columns p and q of a matrix orthogonal (Jacobi), from their squared
/// lengths and the size of their product.
struct Rotation {
  double cosine, sine;
};
inline Rotation RotationFor(double pp, double qq, double product) {
  const double zeta = (qq - pp) / (2 * product);
  const double t = (zeta >= 0 ? 1 : -1) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
  const double cosine = 1 / std::sqrt(1 + t * t);
  return {cosine, cosine * t};
}

template <typename T>
void RotateColumns(Matrix<T>& a, int64_t p, int64_t q, Rotation rotation, T phase) {
  for (int64_t i = 0; i < a.rows; ++i) {
    const T x = a(i, p), y = a(i, q) * Conj(phase);
    a(i, p) = rotation.cosine * x - rotation.sine * y;
    a(i, q) = rotation.sine * x + rotation.cosine * y;
  }
}

/// A V with orthogonal columns, for a matrix of at least as many rows as columns (one-sided
/// Jacobi); A becomes it and V is returned.
template <typename T>
Matrix<T> Orthogonalize(Matrix<T>& a) {
  constexpr int kSweeps = 60;
  Matrix<T> v = Matrix<T>::Identity(a.columns);
  bool turned = true;
  for (int sweep = 0; turned && sweep < kSweeps; ++sweep) {
    turned = false;
    for (int64_t p = 0; p < a.columns; ++p) {
      for (int64_t q = p + 1; q < a.columns; ++q) {
        double pp = 0, qq = 0;
        T product = 0;
        for (int64_t i = 0; i < a.rows; ++i) {
          pp += std::norm(a(i, p));
          qq += std::norm(a(i, q));
          product += Conj(a(i, p)) * a(i, q);
        }
        const double size = std::abs(product);
        if (!(size > 1e-15 * std::sqrt(pp * qq))) continue;
        turned = true;
        const Rotation rotation = RotationFor(pp, qq, size);
        const T phase = product / size;
        RotateColumns(a, p, q, rotation, phase);
        RotateColumns(v, p, q, rotation, phase);
      }
    }
  }
  return v;
}

/// A = U diag(S) Vᴴ, S falling. U has as many columns as A has rows or columns, whichever is less,
/// or with `full` as many as A has rows; V alike.
template <typename T>
struct Svd {
  Matrix<T> u, v;
  std::vector<double> s;
};

/// Columns that make an orthogonal basis of the first ones.
template <typename T>
Matrix<T> CompleteBasis(const Matrix<T>& columns, int64_t total) {
  Matrix<T> factored = columns;
  const std::vector<T> taus = FactorQr(factored);
  Matrix<T> basis = ReflectionProduct(factored, taus, total);
  // The reflections give the columns back up to a factor of size one.
  for (int64_t i = 0; i < columns.rows; ++i) {
    for (int64_t j = 0; j < columns.columns; ++j) basis(i, j) = columns(i, j);
  }
  return basis;
}

template <typename T>
Svd<T> FactorSvd(const Matrix<T>& input, bool full) {
  if (input.rows < input.columns) {
    Svd<T> of = FactorSvd(input.Adjoint(), full);
    return {std::move(of.v), std::move(of.u), std::move(of.s)};
  }
  Matrix<T> a = input;
  const Matrix<T> turned = Orthogonalize(a);
  const int64_t n = a.columns;
  std::vector<double> lengths(static_cast<size_t>(n));
  for (int64_t j = 0; j < n; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < a.rows; ++i) sum += std::norm(a(i, j));
    // What is no number has no order; it comes first.
    lengths[static_cast<size_t>(j)] = std::isnan(sum) ? INFINITY : std::sqrt(sum);
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
    return lengths[static_cast<size_t>(x)] > lengths[static_cast<size_t>(y)];
  });
  Svd<T> result{Matrix<T>(a.rows, n), Matrix<T>(n, n), {}};
  int64_t rank = 0;
  for (int64_t j = 0; j < n; ++j) {
    const int64_t from = order[static_cast<size_t>(j)];
    const double length = lengths[static_cast<size_t>(from)];
    result.s.push_back(length);
    if (length > 0) rank = j + 1;
    for (int64_t i = 0; i < a.rows; ++i) result.u(i, j) = length > 0 ? a(i, from) / length : T(0);
    for (int64_t i = 0; i < n; ++i) result.v(i, j) = turned(i, from);
  }
  const int64_t wanted = full ? a.rows : n;
  if (rank < wanted) result.u = CompleteBasis(result.u.FirstColumns(rank), wanted);
  return result;
}

}  // namespace oort::linalg
