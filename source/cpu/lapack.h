// SPDX-License-Identifier: MIT
// BLAS and LAPACK, of OpenBLAS or of the reference library.
//
// The library is loaded when a model first needs it instead of being linked: as soon as a program
// that links OpenBLAS starts, OpenBLAS starts a thread for each processor, and each spins for
// 40 ms in the way of ours. It then computes on the thread that calls it, so that results do not
// depend on the number of threads; who wants several calls it from several (see layers/linear).
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>

namespace oort::lapack {

using Int = int32_t;    ///< Fortran's INTEGER
using Length = size_t;  ///< of a CHARACTER argument; these come behind all others
using In = const Int*;  ///< Fortran passes everything by its address
using Flag = const char*;

template <typename T>
struct RealOf {
  using Type = T;
};
template <typename T>
struct RealOf<std::complex<T>> {
  using Type = T;
};
template <typename T>
using Real = typename RealOf<T>::Type;

/// What has the same arguments for real and complex numbers.
template <typename T>
struct CommonRoutines {
  void (*gemm)(Flag transa, Flag transb, In m, In n, In k, const T* alpha, const T* a, In lda,
               const T* b, In ldb, const T* beta, T* c, In ldc, Length, Length);
  void (*trsm)(Flag side, Flag uplo, Flag trans, Flag diag, In m, In n, const T* alpha, const T* a,
               In lda, T* b, In ldb, Length, Length, Length, Length);
  void (*getrf)(In m, In n, T* a, In lda, Int* pivots, Int* info);
  void (*getrs)(Flag trans, In n, In nrhs, const T* a, In lda, const Int* pivots, T* b, In ldb,
                Int* info, Length);
  void (*potrf)(Flag uplo, In n, T* a, In lda, Int* info, Length);
  void (*potrs)(Flag uplo, In n, In nrhs, const T* a, In lda, T* b, In ldb, Int* info, Length);
  void (*potri)(Flag uplo, In n, T* a, In lda, Int* info, Length);
  void (*geqrf)(In m, In n, T* a, In lda, T* tau, T* work, In lwork, Int* info);
  /// orgqr, or ungqr of complex numbers.
  void (*orgqr)(In m, In n, In k, T* a, In lda, const T* tau, T* work, In lwork, Int* info);
  void (*gels)(Flag trans, In m, In n, In nrhs, T* a, In lda, T* b, In ldb, T* work, In lwork,
               Int* info, Length);
};

template <typename T>
struct Routines : CommonRoutines<T> {
  void (*gesdd)(Flag jobz, In m, In n, T* a, In lda, T* s, T* u, In ldu, T* vt, In ldvt, T* work,
                In lwork, Int* iwork, Int* info, Length);
  /// syevd, or heevd of complex numbers.
  void (*syevd)(Flag jobz, Flag uplo, In n, T* a, In lda, T* w, T* work, In lwork, Int* iwork,
                In liwork, Int* info, Length, Length);
  void (*geev)(Flag jobvl, Flag jobvr, In n, T* a, In lda, T* wr, T* wi, T* vl, In ldvl, T* vr,
               In ldvr, T* work, In lwork, Int* info, Length, Length);
  void (*gelsy)(In m, In n, In nrhs, T* a, In lda, T* b, In ldb, Int* jpvt, const T* rcond,
                Int* rank, T* work, In lwork, Int* info);
  void (*gelsd)(In m, In n, In nrhs, T* a, In lda, T* b, In ldb, T* s, const T* rcond, Int* rank,
                T* work, In lwork, Int* iwork, Int* info);
  void (*gelss)(In m, In n, In nrhs, T* a, In lda, T* b, In ldb, T* s, const T* rcond, Int* rank,
                T* work, In lwork, Int* info);
};

template <typename R>
struct Routines<std::complex<R>> : CommonRoutines<std::complex<R>> {
  using T = std::complex<R>;
  void (*gesdd)(Flag jobz, In m, In n, T* a, In lda, R* s, T* u, In ldu, T* vt, In ldvt, T* work,
                In lwork, R* rwork, Int* iwork, Int* info, Length);
  void (*syevd)(Flag jobz, Flag uplo, In n, T* a, In lda, R* w, T* work, In lwork, R* rwork,
                In lrwork, Int* iwork, In liwork, Int* info, Length, Length);
  void (*geev)(Flag jobvl, Flag jobvr, In n, T* a, In lda, T* w, T* vl, In ldvl, T* vr, In ldvr,
               T* work, In lwork, R* rwork, Int* info, Length, Length);
  void (*gelsy)(In m, In n, In nrhs, T* a, In lda, T* b, In ldb, Int* jpvt, const R* rcond,
                Int* rank, T* work, In lwork, R* rwork, Int* info);
  void (*gelsd)(In m, In n, In nrhs, T* a, In lda, T* b, In ldb, R* s, const R* rcond, Int* rank,
                T* work, In lwork, R* rwork, Int* iwork, Int* info);
  void (*gelss)(In m, In n, In nrhs, T* a, In lda, T* b, In ldb, R* s, const R* rcond, Int* rank,
                T* work, In lwork, R* rwork, Int* info);
};

/// Whether this build and this machine have LAPACK. Loads it. Thread contract: all functions here
/// may be called by any thread at any time, the routines too.
bool IsAvailable();
/// Throws kUnsupported, with what to do about it, where there is none.
void Require();
/// For people: "OpenBLAS 0.3.21", "LAPACK 3.11.0", or "none" and why.
const std::string& Description();

/// T: float, double or a complex number of these. Throws as Require() does.
template <typename T>
const Routines<T>& Get();
template <>
const Routines<float>& Get();
template <>
const Routines<double>& Get();
template <>
const Routines<std::complex<float>>& Get();
template <>
const Routines<std::complex<double>>& Get();

}  // namespace oort::lapack
