// SPDX-License-Identifier: MIT
// Least squares by the four drivers of LAPACK.
#include <array>

#include "layers/linalg/matrix_batch.h"

namespace oort {
namespace {

using namespace linalg;  // NOLINT: the helpers of this folder

/// gels: full rank, by QR; gelsy: QR with exchanged columns; gelsd and gelss: singular values.
enum class Driver { kGels, kGelsy, kGelsd, kGelss };

Driver DriverOf(const Value& name) {
  static constexpr std::array kNames = {"gels", "gelsy", "gelsd", "gelss"};
  if (name.IsNone()) return Driver::kGelsy;  // torch's choice on a CPU
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name.AsString() == kNames[i]) return static_cast<Driver>(i);
  }
  throw Error(ErrorCode::kInvalidArgument,
              "expected the driver gels, gelsy, gelsd or gelss, got '" +
                  name.AsString().substr(0, 40) + "'");
}
bool UsesSvd(Driver driver) { return driver == Driver::kGelsd || driver == Driver::kGelss; }

/// One matrix A, which is destroyed, and a right side with as many rows as A has rows or columns,
/// whichever is more. X takes its place from the top.
template <typename T>
struct Problem {
  Problem(Matrix<T> matrix, Matrix<T> right)
      : a(std::move(matrix)),
        b(std::move(right)),
        s(std::min(a.rows(), a.columns())),
        exchanged_(a.columns()) {
    std::fill_n(exchanged_.data(), a.columns(), 0);
  }

  Int Solve(Driver driver, Real<T> rcond) {
    // LAPACK first tells how much memory it wants; of real numbers only gelsd does.
    T elements{};
    Real<T> reals_wanted = 0;
    Int integers_wanted = 0, count = -1;
    Run(driver, rcond, &elements, &count, &reals_wanted, &integers_wanted);
    count = RoomFor(std::real(elements));
    Scratch<T> work(count);
    Scratch<Real<T>> reals(std::max({RoomFor(reals_wanted), 2 * a.columns(), 5 * a.rows()}));
    Scratch<Int> integers(integers_wanted);
    return Run(driver, rcond, work.data(), &count, reals.data(), integers.data());
  }

  Matrix<T> a, b;
  Scratch<Real<T>> s;
  Int rank = 0;

 private:
  Int Run(Driver driver, const Real<T>& rcond, T* work, const Int* lwork, Real<T>* reals,
          Int* integers) {
    if constexpr (std::is_same_v<T, Real<T>>) {
      return Call(driver, rcond, work, lwork, integers);
    } else {
      return Call(driver, rcond, work, lwork, integers, reals);
    }
  }

  template <typename... Reals>  // one of complex numbers, none of others
  Int Call(Driver driver, const Real<T>& rcond, T* work, const Int* lwork, Int* integers,
           Reals... reals) {
    Int info = 0;
    const auto& lapack = lapack::Get<T>();
    const Int &m = a.rows(), &n = a.columns(), &count = b.columns();
    const Int lda = a.step(), ldb = b.step();
    switch (driver) {
      case Driver::kGels:
        lapack.gels("N", &m, &n, &count, a.data(), &lda, b.data(), &ldb, work, lwork, &info, 1);
        break;
      case Driver::kGelsy:
        lapack.gelsy(&m, &n, &count, a.data(), &lda, b.data(), &ldb, exchanged_.data(), &rcond,
                     &rank, work, lwork, reals..., &info);
        break;
      case Driver::kGelsd:
        lapack.gelsd(&m, &n, &count, a.data(), &lda, b.data(), &ldb, s.data(), &rcond, &rank, work,
                     lwork, reals..., integers, &info);
        break;
      case Driver::kGelss:
        lapack.gelss(&m, &n, &count, a.data(), &lda, b.data(), &ldb, s.data(), &rcond, &rank, work,
                     lwork, reals..., &info);
        break;
    }
    return info;
  }

  Scratch<Int> exchanged_;  // columns; 0: any may be
};

/// The least of what the driver gives that a number counts as 0 with, relative to the largest.
template <typename T>
Real<T> Tolerance(const Value& rcond, const Tensor& a) {
  if (!rcond.IsNone()) return static_cast<Real<T>>(rcond.AsFloat());
  return std::numeric_limits<Real<T>>::epsilon() *
         static_cast<Real<T>>(std::max(a.dim(-2), a.dim(-1)));
}

template <typename T>
void SolveAll(const Tensor& a, const Tensor& b, Driver driver, const Value& rcond,
              std::vector<Tensor>& to) {
  const int64_t m = a.dim(-2), n = a.dim(-1), count = b.dim(-1), least = std::min(m, n);
  for (int64_t i = 0; i < BatchCount(a); ++i) {
    const T* right = Begin<T>(b, i);
    Matrix<T> rows(std::max(m, n), count);
    rows.Fill([&](Int row, Int column) { return row < m ? right[row * count + column] : T(0); });
    Problem<T> problem(Load<T>(a, i), std::move(rows));
    if (UsesSvd(driver)) RequireFinite(problem.a);
    if (least > 0 && count > 0) {
      const Int info = problem.Solve(driver, Tolerance<T>(rcond, a));
      if (driver == Driver::kGels) {
        RequireRegular(info, "not of full rank, as the driver gels needs it");
      }
      RequireConverged(info);
    }
    T* x = Begin<T>(to[0], i);
    for (int64_t row = 0; row < n; ++row) {
      for (int64_t j = 0; j < count; ++j) *x++ = problem.b(row, j);
    }
    for (int64_t j = 0; j < count && to[1].elements() > 0; ++j) {
      Real<T> sum = 0;
      for (int64_t row = n; row < m; ++row) sum += std::norm(problem.b(row, j));
      to[1].data<Real<T>>()[i * count + j] = sum;
    }
    if (driver != Driver::kGels) to[2].data<int64_t>()[i] = problem.rank;
    if (UsesSvd(driver)) std::copy_n(problem.s.data(), least, to[3].data<Real<T>>() + i * least);
  }
}

/// A, B, rcond, driver: X, the squared residuals, the rank and the singular values, as far as the
/// driver gives them; what it does not is empty.
std::vector<Value> LeastSquares(const Decomposer& call, const Args& args) {
  const Tensor &a = args.tensor(0), &given = args.tensor(1);
  RequireMatrices(a);
  const int64_t m = a.dim(-2), n = a.dim(-1);
  const bool vectors = given.rank() == a.rank() - 1 && given.shape() == BatchShape(a, {m});
  Shape shape = given.shape();
  if (vectors) shape.Append(1);
  if (shape.rank() != a.rank() || shape[shape.rank() - 2] != m || given.dtype() != a.dtype() ||
      shape.elements() != BatchCount(a) * m * shape[shape.rank() - 1]) {
    Fail("a right side that fits " + a.ToString(), given);
  }
  const Driver driver = DriverOf(args[3]);
  const int64_t count = shape[shape.rank() - 1];
  const DType real = RealDType(a.dtype());
  const Shape none{0};
  // Only those tell of residuals; with singular values only where the rank is full.
  const bool residuals = m > n && driver != Driver::kGelsy;
  const std::vector<Tensor> metas{
      Tensor::Meta(a.dtype(), vectors ? BatchShape(a, {n}) : BatchShape(a, {n, count})),
      Tensor::Meta(real, !residuals ? none
                         : vectors  ? BatchShape(a, {})
                                    : BatchShape(a, {count})),
      Tensor::Meta(DType::kI64, driver == Driver::kGels ? none : BatchShape(a, {})),
      Tensor::Meta(real, UsesSvd(driver) ? BatchShape(a, {std::min(m, n)}) : none)};
  if (!call.computes()) {
    std::vector<Value> results{metas.begin(), metas.end()};
    if (residuals && UsesSvd(driver)) results[1] = Value::Deferred();
    return results;
  }
  const Tensor b = given.Reshaped(shape);
  std::vector<Value> results =
      Compute(call, {a, b}, metas, [&](auto tag, const auto& from, auto& to) {
        const Shape solution = to[0].shape();
        if (vectors) to[0] = to[0].Reshaped(BatchShape(a, {n, 1}));
        SolveAll<typename decltype(tag)::Type>(from[0], from[1], driver, args[2], to);
        to[0] = to[0].Reshaped(solution);
      });
  if (residuals && UsesSvd(driver)) {
    const Tensor& ranks = results[2].AsTensor();
    const int64_t* rank = ranks.data<int64_t>();
    if (!std::all_of(rank, rank + ranks.elements(), [n](int64_t r) { return r == n; })) {
      results[1] = Tensor(real, none);
    }
  }
  return results;
}

}  // namespace
}  // namespace oort

OORT_LAYERS(least_squares) {
  using namespace oort;
  const linalg::MatrixOperators add{registry, linalg::kMatrixDTypes, true};
  add({"aten::linalg_lstsq"}, "X with the least |A X - B|", "*A *B rcond driver", LeastSquares, 4);
}
