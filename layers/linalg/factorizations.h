// SPDX-License-Identifier: MIT
// What LAPACK does with one matrix. The routines are those that torch calls, so that signs, phases
// and the order of what is equal are torch's. An Int that is returned is LAPACK's info: 0, or 1 +
// the column at which a factorization failed.
#pragma once

#include <limits>

#include "layers/linalg/matrix.h"

namespace oort::linalg {

/// LAPACK tells how many elements it wants as a floating-point number; f32 may have rounded it
/// down.
template <typename R>
Int RoomFor(R wanted) {
  const double most = static_cast<double>(wanted) * (1 + std::numeric_limits<R>::epsilon());
  if (most >= std::numeric_limits<Int>::max()) {
    throw Error(ErrorCode::kUnsupported, "the matrix is too large for LAPACK");
  }
  return static_cast<Int>(most) + 1;
}

/// Calls routine(work, lwork) twice: LAPACK first tells how much memory it wants.
template <typename T, typename Routine>
void WithWork(const Routine& routine) {
  T wanted{};
  Int count = -1;
  routine(&wanted, &count);
  count = RoomFor(std::real(wanted));
  Scratch<T> work(count);
  routine(work.data(), &count);
}

enum class Op : char { kNone = 'N', kTranspose = 'T', kAdjoint = 'C' };

/// a (or its transpose or adjoint) times b.
template <typename T>
Matrix<T> Multiply(const Matrix<T>& a, Op op_a, const Matrix<T>& b, Op op_b) {
  const Int m = op_a == Op::kNone ? a.rows() : a.columns();
  const Int k = op_a == Op::kNone ? a.columns() : a.rows();
  const Int n = op_b == Op::kNone ? b.columns() : b.rows();
  Matrix<T> c(m, n);
  if (k == 0) c.Fill([](Int, Int) { return T(0); });
  if (k == 0 || c.empty()) return c;
  const T one = 1, zero = 0;
  const char flag_a = static_cast<char>(op_a), flag_b = static_cast<char>(op_b);
  const Int lda = a.step(), ldb = b.step(), ldc = c.step();
  lapack::Get<T>().gemm(&flag_a, &flag_b, &m, &n, &k, &one, a.data(), &lda, b.data(), &ldb, &zero,
                        c.data(), &ldc, 1, 1);
  return c;
}

/// L below the diagonal (ones on it), U on and above it. Row i was exchanged with row pivots[i],
/// counted from 1.
template <typename T>
Int FactorLu(Matrix<T>& a, Int* pivots) {
  Int info = 0;
  const Int lda = a.step();
  if (!a.empty()) lapack::Get<T>().getrf(&a.rows(), &a.columns(), a.data(), &lda, pivots, &info);
  return info;
}

/// Solves op(A) X = B in the place of B.
template <typename T>
void SolveLu(const Matrix<T>& lu, const Int* pivots, Op op, Matrix<T>& b) {
  if (b.empty()) return;
  Int info = 0;
  const Int lda = lu.step(), ldb = b.step();
  const char flag = static_cast<char>(op);
  lapack::Get<T>().getrs(&flag, &lu.rows(), &b.columns(), lu.data(), &lda, pivots, b.data(), &ldb,
                         &info, 1);
}

struct Triangle {
  bool upper = false, unit = false, left = true;
  Op op = Op::kNone;
};

/// Solves op(A) X = B, or X op(A) = B, in the place of B.
template <typename T>
void SolveTriangle(const Matrix<T>& a, const Triangle& form, Matrix<T>& b) {
  if (b.empty()) return;
  const T one = 1;
  const Int lda = a.step(), ldb = b.step();
  const char op = static_cast<char>(form.op);
  lapack::Get<T>().trsm(form.left ? "L" : "R", form.upper ? "U" : "L", &op, form.unit ? "U" : "N",
                        &b.rows(), &b.columns(), &one, a.data(), &lda, b.data(), &ldb, 1, 1, 1, 1);
}

/// A triangle L with L Lᴴ = A, or U with Uᴴ U = A; the other triangle becomes 0.
template <typename T>
Int FactorCholesky(Matrix<T>& a, bool upper) {
  Int info = 0;
  const Int lda = a.step();
  if (a.empty()) return 0;
  lapack::Get<T>().potrf(upper ? "U" : "L", &a.rows(), a.data(), &lda, &info, 1);
  for (Int j = 0; j < a.columns(); ++j) {
    for (Int i = 0; i < a.rows(); ++i) {
      if (upper ? i > j : i < j) a(i, j) = 0;
    }
    // The reference library tells of these, OpenBLAS does not.
    if (info == 0 && std::isnan(std::real(a(j, j)))) info = j + 1;
  }
  return info;
}

/// Solves A X = B in the place of B by the triangle of A.
template <typename T>
void SolveCholesky(const Matrix<T>& triangle, bool upper, Matrix<T>& b) {
  if (b.empty()) return;
  Int info = 0;
  const Int lda = triangle.step(), ldb = b.step();
  lapack::Get<T>().potrs(upper ? "U" : "L", &b.rows(), &b.columns(), triangle.data(), &lda,
                         b.data(), &ldb, &info, 1);
}

/// A⁻¹ in the place of the triangle of A.
template <typename T>
Int InvertCholesky(Matrix<T>& triangle, bool upper) {
  if (triangle.empty()) return 0;
  Int info = 0;
  const Int lda = triangle.step();
  lapack::Get<T>().potri(upper ? "U" : "L", &triangle.rows(), triangle.data(), &lda, &info, 1);
  for (Int j = 0; j < triangle.columns(); ++j) {
    for (Int i = 0; i < j; ++i) {
      (upper ? triangle(j, i) : triangle(i, j)) = Conj(upper ? triangle(i, j) : triangle(j, i));
    }
  }
  return info;
}

/// R on and above the diagonal, Householder's vectors below it, their factors in `tau`.
template <typename T>
void FactorQr(Matrix<T>& a, T* tau) {
  if (a.empty()) return;
  Int info = 0;
  const Int lda = a.step();
  WithWork<T>([&](T* work, const Int* lwork) {
    lapack::Get<T>().geqrf(&a.rows(), &a.columns(), a.data(), &lda, tau, work, lwork, &info);
  });
}

/// The product of `count` reflections, in their place: Q of QR, as wide as the matrix is.
template <typename T>
void FormQ(Matrix<T>& a, const T* tau, int64_t count) {
  if (a.empty()) return;
  Int info = 0;
  const Int lda = a.step(), k = static_cast<Int>(count);
  WithWork<T>([&](T* work, const Int* lwork) {
    lapack::Get<T>().orgqr(&a.rows(), &a.columns(), &k, a.data(), &lda, tau, work, lwork, &info);
  });
}

/// U diag(S) Vᴴ, S falling.
template <typename T>
struct Svd {
  Svd(const Matrix<T>& a, bool vectors, bool full)
      : count(std::min(a.rows(), a.columns())),
        s(count),
        u(vectors ? a.rows() : 0, vectors ? (full ? a.rows() : count) : 0),
        vh(vectors ? (full ? a.columns() : count) : 0, vectors ? a.columns() : 0) {}
  Int count;
  Scratch<Real<T>> s;
  Matrix<T> u, vh;
};

/// Destroys `a`, whose elements must be finite. `full`: U and V are square.
template <typename T>
Int FactorSvd(Matrix<T>& a, Svd<T>& of, bool vectors, bool full) {
  if (a.empty()) {
    const auto identity = [](Int i, Int j) { return T(i == j ? 1 : 0); };
    of.u.Fill(identity);
    of.vh.Fill(identity);
    return 0;
  }
  Int info = 0;
  const Int lda = a.step(), ldu = of.u.step(), ldvh = of.vh.step();
  const char* const job = !vectors ? "N" : full ? "A" : "S";
  Scratch<Int> integers(8 * int64_t{of.count});
  const auto call = [&](auto... reals) {
    WithWork<T>([&](T* work, const Int* lwork) {
      lapack::Get<T>().gesdd(job, &a.rows(), &a.columns(), a.data(), &lda, of.s.data(), of.u.data(),
                             &ldu, of.vh.data(), &ldvh, work, lwork, reals..., integers.data(),
                             &info, 1);
    });
  };
  if constexpr (std::is_same_v<T, Real<T>>) {
    call();
  } else {
    const int64_t least = of.count, most = std::max(a.rows(), a.columns());
    Scratch<Real<T>> reals(
        !vectors ? 7 * least
                 : std::max(5 * least * least + 7 * least, 2 * least * (most + least) + least));
    call(reals.data());
  }
  return info;
}

/// Eigenvalues of a Hermitian matrix of which one triangle counts, rising; eigenvectors come in the
/// place of the matrix where they are wanted.
template <typename T>
Int FactorHermitian(Matrix<T>& a, bool upper, bool vectors, Real<T>* values) {
  if (a.empty()) return 0;
  using R = Real<T>;
  Int info = 0;
  const Int lda = a.step();
  const char *const job = vectors ? "V" : "N", *const triangle = upper ? "U" : "L";
  T work_wanted{};
  R reals_wanted{};
  Int integers = 0, query = -1;
  const auto call = [&](T* work, const Int* lwork, R* reals, const Int* lreals, Int* ints,
                        const Int* lints) {
    if constexpr (std::is_same_v<T, R>) {
      lapack::Get<T>().syevd(job, triangle, &a.rows(), a.data(), &lda, values, work, lwork, ints,
                             lints, &info, 1, 1);
    } else {
      lapack::Get<T>().syevd(job, triangle, &a.rows(), a.data(), &lda, values, work, lwork, reals,
                             lreals, ints, lints, &info, 1, 1);
    }
  };
  call(&work_wanted, &query, &reals_wanted, &query, &integers, &query);
  const Int lwork = RoomFor(std::real(work_wanted)), lreals = RoomFor(reals_wanted);
  Scratch<T> work(lwork);
  Scratch<R> reals(lreals);
  Scratch<Int> ints(integers);
  call(work.data(), &lwork, reals.data(), &lreals, ints.data(), &integers);
  return info;
}

/// Eigenvalues and eigenvectors (null: not wanted) of any square matrix, which is destroyed and
/// whose elements must be finite. Each vector has the length 1 and a real largest element.
template <typename T, typename C = std::complex<Real<T>>>
Int FactorEigen(Matrix<T>& a, C* values, Matrix<C>* vectors) {
  const Int n = a.rows(), lda = a.step(), one = 1;
  if (n == 0) return 0;
  Int info = 0;
  const char* const job = vectors != nullptr ? "V" : "N";
  if constexpr (std::is_same_v<T, C>) {
    Scratch<Real<T>> reals(2 * int64_t{n});
    T none{};
    T* const v = vectors != nullptr ? vectors->data() : &none;
    WithWork<T>([&](T* work, const Int* lwork) {
      lapack::Get<T>().geev("N", job, &n, a.data(), &lda, values, &none, &one, v, &lda, work, lwork,
                            reals.data(), &info, 1, 1);
    });
  } else {
    Scratch<T> real(n), imaginary(n);
    Matrix<T> right(vectors != nullptr ? n : 0, vectors != nullptr ? n : 0);
    T none{};
    WithWork<T>([&](T* work, const Int* lwork) {
      lapack::Get<T>().geev("N", job, &n, a.data(), &lda, real.data(), imaginary.data(), &none,
                            &one, right.data(), &lda, work, lwork, &info, 1, 1);
    });
    for (Int j = 0; j < n; ++j) values[j] = C(real[j], imaginary[j]);
    // A pair of conjugate vectors stands as its real and its imaginary part.
    for (Int j = 0; vectors != nullptr && j < n; ++j) {
      const bool pair = imaginary[j] > 0 && j + 1 < n;
      for (Int i = 0; i < n; ++i) {
        const T x = right(i, j), y = pair ? right(i, j + 1) : T(0);
        (*vectors)(i, j) = C(x, y);
        if (pair) (*vectors)(i, j + 1) = C(x, -y);
      }
      if (pair) ++j;
    }
  }
  return info;
}

}  // namespace oort::linalg
