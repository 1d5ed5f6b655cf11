// SPDX-License-Identifier: MIT
// Factorizations of every dtype, of batches and of matrices of all sizes, held against what their
// factors must multiply to.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "layers/aten/aten_values.h"
#include "layers/linalg/needs_lapack.h"

namespace oort::testing {
namespace {

constexpr DType kMatrixTypes[] = {DType::kF32, DType::kF64, DType::kC64, DType::kC128};

double Slack(DType dtype) { return dtype == DType::kF32 || dtype == DType::kC64 ? 2e-4 : 1e-11; }

/// Numbers in [-1, 1], complex ones where the dtype is.
Tensor Random(DType dtype, Shape shape, uint32_t seed) {
  if (!IsComplex(dtype)) return RandomTensor(DType::kF64, shape, seed).To(dtype);
  const Tensor real = RandomTensor(DType::kF64, shape, seed);
  const Tensor imaginary = RandomTensor(DType::kF64, shape, seed + 1000);
  Tensor result(DType::kC128, shape);
  for (int64_t i = 0; i < result.elements(); ++i) {
    result.data<std::complex<double>>()[i] = {real.data<double>()[i], imaginary.data<double>()[i]};
  }
  return result.To(dtype);
}

Tensor Product(const Tensor& a, const Tensor& b) {
  return OperatorCase("torch.matmul").Input(a).Input(b).Run()[0];
}

/// The adjoint of each matrix.
Tensor Adjoint(const Tensor& x) {
  const Tensor turned =
      OperatorCase("torch.transpose").Param("dim0", "-1").Param("dim1", "-2").Input(x).Run()[0];
  return IsComplex(x.dtype()) ? OperatorCase("aten::conj_physical").Input(turned).Run()[0] : turned;
}

/// Each column of A times one of the factors, which may be real where A is complex.
Tensor ScaleColumns(const Tensor& a, const Tensor& factors) {
  Shape shape = factors.shape();
  shape.Insert(shape.rank() - 1, 1);
  return OperatorCase("pnnx.Expression")
      .Param("expr", "mul(@0,@1)")
      .Input(a)
      .Input(factors.To(a.dtype()).Reshaped(shape))
      .Run()[0];
}

Tensor Identities(DType dtype, Shape shape) {
  Tensor result = Tensor::Zeros(DType::kF64, shape);
  const int64_t n = result.dim(-1);
  for (int64_t i = 0; i < result.elements(); i += n * n) {
    for (int64_t k = 0; k < n; ++k) result.data<double>()[i + k * (n + 1)] = 1;
  }
  return result.To(dtype);
}

std::vector<Tensor> Factors(const char* type, std::initializer_list<Value> inputs, int outputs) {
  OperatorCase tested(type);
  for (const Value& input : inputs) tested.Input(input);
  return tested.Outputs(outputs).Run();
}

/// Qᴴ Q = 1.
void ExpectOrthogonal(const Tensor& q) {
  const Tensor product = Product(Adjoint(q), q);
  ExpectNear(product, Identities(q.dtype(), product.shape()), {Slack(q.dtype()), 0});
}

class LinalgIdentities : public NeedsLapack<::testing::TestWithParam<DType>> {
 protected:
  DType dtype() const { return GetParam(); }
  Tolerance tolerance() const { return {Slack(dtype()), Slack(dtype())}; }
  Tensor Matrices(Shape shape) const { return Random(dtype(), shape, 17); }
  /// Matrices equal to their adjoints, and with eigenvalues above 0.
  Tensor Positive(int64_t n) const {
    const Tensor a = Matrices({2, n, n});
    const Tensor squares = Product(a, Adjoint(a));
    return OperatorCase("pnnx.Expression")
        .Param("expr", "add(@0,@1)")
        .Input(squares)
        .Input(Identities(dtype(), squares.shape()))
        .Run()[0];
  }
};

TEST_P(LinalgIdentities, PLU) {
  for (const Shape& shape : {Shape{3, 5, 5}, Shape{7, 3}, Shape{3, 7}, Shape{130, 130}}) {
    const Tensor a = Matrices(shape);
    const auto plu = Factors("aten::linalg_lu", {a, Value(true)}, 3);
    ExpectNear(Product(plu[0], Product(plu[1], plu[2])), a, tolerance());
    const auto packed = Factors("aten::linalg_lu_factor_ex", {a, Value(true), Value(false)}, 3);
    const auto again =
        Factors("aten::lu_unpack", {packed[0], packed[1], Value(true), Value(true)}, 3);
    for (size_t i = 0; i < 3; ++i) ExpectNear(again[i], plu[i]);
  }
}

TEST_P(LinalgIdentities, QR) {
  for (const Shape& shape : {Shape{2, 5, 5}, Shape{7, 3}, Shape{2, 3, 7}}) {
    const Tensor a = Matrices(shape);
    for (const char* mode : {"reduced", "complete"}) {
      const auto qr = Factors("aten::linalg_qr", {a, Value(mode)}, 2);
      ExpectOrthogonal(qr[0]);
      ExpectNear(Product(qr[0], qr[1]), a, tolerance());
    }
    const auto both = Factors("aten::linalg_qr", {a, Value("reduced")}, 2);
    const auto only = Factors("aten::linalg_qr", {a, Value("r")}, 2);
    EXPECT_EQ(only[0].shape(), (Shape{0}));
    ExpectNear(only[1], both[1], tolerance());
  }
  const auto reflections = Factors("aten::geqrf", {Matrices({7, 3})}, 2);
  const auto q = Factors("aten::linalg_householder_product", {reflections[0], reflections[1]}, 1);
  ExpectNear(q[0], Factors("aten::qr", {Matrices({7, 3}), Value(true)}, 2)[0], tolerance());
}

TEST_P(LinalgIdentities, SVD) {
  for (const Shape& shape : {Shape{2, 5, 5}, Shape{9, 4}, Shape{2, 4, 9}, Shape{60, 60}}) {
    const Tensor a = Matrices(shape);
    const auto svd = Factors("aten::linalg_svd", {a, Value(false), Value()}, 3);
    ExpectOrthogonal(svd[0]);
    ExpectOrthogonal(Adjoint(svd[2]));
    ExpectNear(Product(ScaleColumns(svd[0], svd[1]), svd[2]), a, tolerance());
    const auto full = Factors("aten::linalg_svd", {a, Value(true), Value()}, 3);
    ExpectOrthogonal(full[0]);
    ExpectOrthogonal(full[2]);
    ExpectNear(full[1], svd[1], tolerance());
    ExpectNear(Factors("aten::linalg_svdvals", {a, Value()}, 1)[0], svd[1], tolerance());
    const auto old = Factors("aten::svd", {a, Value(true), Value(true)}, 3);
    ExpectNear(old[2], Adjoint(svd[2]), tolerance());
    const auto none = Factors("aten::svd", {a, Value(true), Value(false)}, 3);
    EXPECT_EQ(none[0].dim(-1), a.dim(-2));
    EXPECT_EQ(none[2].dim(-1), a.dim(-1));
    ExpectNear(none[1], svd[1], tolerance());
  }
}

TEST_P(LinalgIdentities, EigenvectorsOfHermitianMatrices) {
  for (const int64_t n : {1, 6, 70}) {
    const Tensor a = Positive(n);
    for (const char* triangle : {"L", "U"}) {
      const auto of = Factors("aten::linalg_eigh", {a, Value(triangle)}, 2);
      ExpectOrthogonal(of[1]);
      ExpectNear(Product(ScaleColumns(of[1], of[0]), Adjoint(of[1])), a,
                 {100 * Slack(dtype()), Slack(dtype())});
      ExpectNear(Factors("aten::linalg_eigvalsh", {a, Value(triangle)}, 1)[0], of[0],
                 {100 * Slack(dtype()), Slack(dtype())});
    }
  }
}

TEST_P(LinalgIdentities, EigenvectorsOfAnyMatrix) {
  for (const Shape& shape : {Shape{1, 1}, Shape{2, 5, 5}, Shape{40, 40}}) {
    const Tensor a = Matrices(shape);
    const auto of = Factors("aten::linalg_eig", {a}, 2);
    ASSERT_TRUE(IsComplex(of[0].dtype()) && IsComplex(of[1].dtype()));
    // A V = V diag(w).
    ExpectNear(Product(a.To(of[1].dtype()), of[1]), ScaleColumns(of[1], of[0]), tolerance());
    ExpectNear(Factors("aten::linalg_eigvals", {a}, 1)[0], of[0], tolerance());
  }
}

TEST_P(LinalgIdentities, SolutionsAndInverses) {
  for (const int64_t n : {1, 4, 65}) {
    const Tensor a = Positive(n), b = Matrices({2, n, 3});
    const Tensor one = Identities(dtype(), a.shape());
    const auto expect_solved = [&](const Tensor& x) {
      ExpectNear(Product(a, x), b, {100 * Slack(dtype()), Slack(dtype())});
    };
    expect_solved(Factors("aten::linalg_solve", {a, b, Value(true)}, 1)[0]);
    const Tensor turned = Factors("aten::linalg_solve", {a, Adjoint(b), Value(false)}, 1)[0];
    ExpectNear(Product(turned, a), Adjoint(b), {100 * Slack(dtype()), Slack(dtype())});
    ExpectNear(Product(Factors("aten::linalg_inv", {a}, 1)[0], a), one, {Slack(dtype()), 0});
    for (const bool upper : {false, true}) {
      const Tensor triangle = Factors("aten::linalg_cholesky", {a, Value(upper)}, 1)[0];
      ExpectNear(
          upper ? Product(Adjoint(triangle), triangle) : Product(triangle, Adjoint(triangle)), a,
          {100 * Slack(dtype()), Slack(dtype())});
      expect_solved(Factors("aten::cholesky_solve", {b, triangle, Value(upper)}, 1)[0]);
      const Tensor inverse = Factors("aten::cholesky_inverse", {triangle, Value(upper)}, 1)[0];
      ExpectNear(Product(inverse, a), one, {100 * Slack(dtype()), 0});
      const Tensor x = Factors("aten::linalg_solve_triangular",
                               {triangle, b, Value(upper), Value(true), Value(false)}, 1)[0];
      ExpectNear(Product(triangle, x), b, tolerance());
    }
  }
}

/// det(A) and its logarithm, against the product of the eigenvalues.
TEST_P(LinalgIdentities, Determinants) {
  const Tensor a = Matrices({5, 5});
  const Tensor values = Factors("aten::linalg_eigvals", {a}, 1)[0].To(DType::kC128);
  std::complex<double> product = 1;
  for (const std::complex<double> value : values.span<std::complex<double>>()) product *= value;
  const Tensor want = Tensor::Scalar(product);
  ExpectNear(Factors("aten::linalg_det", {a}, 1)[0].To(DType::kC128), want, tolerance());
  const auto of = Factors("aten::linalg_slogdet", {a}, 2);
  const std::complex<double> sign = of[0].To(DType::kC128).data<std::complex<double>>()[0];
  const double log = of[1].To(DType::kF64).data<double>()[0];
  ExpectNear(Tensor::Scalar(sign * std::exp(log)), want, tolerance());
}

TEST_P(LinalgIdentities, PseudoinversesAndRanks) {
  // Of rank 2: A A⁺ A = A.
  const Tensor a = Product(Matrices({2, 6, 2}), Random(dtype(), {2, 2, 4}, 5));
  const Tensor inverse = Factors("aten::linalg_pinv", {a, Value(), Value(), Value(false)}, 1)[0];
  ExpectNear(Product(a, Product(inverse, a)), a, tolerance());
  ExpectNear(Factors("aten::linalg_matrix_rank", {a, Value(), Value(), Value(false)}, 1)[0],
             I({2, 2}, {2}));
  const Tensor hermitian = Positive(4);
  const auto pinv = [&](bool flag) {
    return Factors("aten::linalg_pinv", {hermitian, Value(), Value(), Value(flag)}, 1)[0];
  };
  ExpectNear(pinv(true), pinv(false), tolerance());
  ExpectNear(Factors("aten::linalg_matrix_rank", {hermitian, Value(), Value(), Value(true)}, 1)[0],
             I({4, 4}, {2}));
}

TEST_P(LinalgIdentities, LeastSquaresByEachDriver) {
  const Tensor a = Matrices({2, 7, 3}), b = Random(dtype(), {2, 7, 2}, 3);
  for (const char* driver : {"gels", "gelsy", "gelsd", "gelss"}) {
    SCOPED_TRACE(driver);
    const auto of = Factors("aten::linalg_lstsq", {a, b, Value(), Value(driver)}, 4);
    // What is left is orthogonal to the columns of A.
    const Tensor left = OperatorCase("pnnx.Expression")
                            .Param("expr", "sub(@0,@1)")
                            .Input(Product(a, of[0]))
                            .Input(b)
                            .Run()[0];
    const Tensor across = Product(Adjoint(a), left);
    ExpectNear(across, Tensor::Zeros(dtype(), across.shape()), {10 * Slack(dtype()), 0});
    const std::string name = driver;
    EXPECT_EQ(of[1].shape(), (name == "gelsy" ? Shape{0} : Shape{2, 2}));
    EXPECT_EQ(of[2].shape(), (name == "gels" ? Shape{0} : Shape{2}));
    EXPECT_EQ(of[3].shape(), (name == "gelsd" || name == "gelss" ? Shape{2, 3} : Shape{0}));
    if (name != "gelsy") {
      const Tensor squares = OperatorCase("torch.sum")
                                 .Param("dim", "(1)")
                                 .Input(OperatorCase("pnnx.Expression")
                                            .Param("expr", "square(abs(@0))")
                                            .Input(left)
                                            .Run()[0])
                                 .Run()[0];
      ExpectNear(of[1], squares, tolerance());
    }
  }
  // Fewer equations than unknowns: the shortest solution, also for a vector.
  const Tensor wide = Matrices({3, 5}), right = Random(dtype(), {3}, 4);
  const Tensor x = Factors("aten::linalg_lstsq", {wide, right, Value(), Value()}, 4)[0];
  EXPECT_EQ(x.shape(), (Shape{5}));
  ExpectNear(Product(wide, x), right, tolerance());
  const Tensor inverse = Factors("aten::linalg_pinv", {wide, Value(), Value(), Value(false)}, 1)[0];
  ExpectNear(x, Product(inverse, right), tolerance());
}

TEST_P(LinalgIdentities, EmptyMatricesAndBatches) {
  const auto empty = [&](Shape shape) { return Tensor(dtype(), shape); };
  const auto shapes = [&](const char* type, std::initializer_list<Value> inputs,
                          std::initializer_list<Shape> want) {
    SCOPED_TRACE(type);
    const auto of = Factors(type, inputs, static_cast<int>(want.size()));
    size_t i = 0;
    for (const Shape& shape : want) EXPECT_EQ(of[i++].shape(), shape);
  };
  shapes("aten::linalg_lu", {empty({0, 3}), Value(true)}, {{0, 0}, {0, 0}, {0, 3}});
  shapes("aten::linalg_qr", {empty({0, 2, 3}), Value("reduced")}, {{0, 2, 2}, {0, 2, 3}});
  shapes("aten::linalg_svd", {empty({0, 0}), Value(true), Value()}, {{0, 0}, {0}, {0, 0}});
  shapes("aten::linalg_eig", {empty({2, 0, 0})}, {{2, 0}, {2, 0, 0}});
  shapes("aten::linalg_eigh", {empty({0, 0}), Value("L")}, {{0}, {0, 0}});
  shapes("aten::linalg_solve", {empty({0, 0}), empty({0, 4}), Value(true)}, {{0, 4}});
  shapes("aten::linalg_cholesky", {empty({0, 4, 4}), Value(false)}, {{0, 4, 4}});
  shapes("aten::linalg_pinv", {empty({0, 3}), Value(), Value(), Value(false)}, {{3, 0}});
  shapes("aten::linalg_lstsq", {empty({0, 3}), empty({0, 2}), Value(), Value()},
         {{3, 2}, {0}, {}, {0}});
  // A matrix without columns has an orthogonal basis, too, and a determinant.
  const auto svd = Factors("aten::linalg_svd", {empty({3, 0}), Value(true), Value()}, 3);
  ExpectNear(svd[0], Identities(dtype(), {3, 3}));
  ExpectNear(Factors("aten::linalg_qr", {empty({3, 0}), Value("complete")}, 2)[0],
             Identities(dtype(), {3, 3}));
  ExpectNear(Factors("aten::linalg_det", {empty({0, 0})}, 1)[0], Tensor::Scalar(1.0).To(dtype()));
}

INSTANTIATE_TEST_SUITE_P(DTypes, LinalgIdentities, ::testing::ValuesIn(kMatrixTypes),
                         [](const auto& tested) { return std::string(Name(tested.param)); });

TEST_F(Linalg, FindsEigenvaluesOfAnyMatrix) {
  using C64 = std::complex<float>;
  // A rotation by 90 degrees, and a matrix with a single eigenvector.
  Check("aten::linalg_eigvals", {F({0, -1, 1, 0}, {2, 2})},
        {Tensor::From<C64>({C64(0, 1), C64(0, -1)}, {2})});
  const auto of = Factors("aten::linalg_eig", {F({0, -1, 1, 0, 2, 1, 0, 2}, {2, 2, 2})}, 2);
  ExpectNear(of[0], Tensor::From<C64>({C64(0, 1), C64(0, -1), 2, 2}, {2, 2}), {1e-6, 1e-6});
  // As LAPACK scales them: of length 1, the largest element real.
  const float half = std::sqrt(0.5f);
  ExpectNear(of[1],
             Tensor::From<C64>({half, half, C64(0, -half), C64(0, half), 1, -1, 0, 0}, {2, 2, 2}),
             {1e-6, 1e-6});
}

TEST_F(Linalg, RefusesWhatIsNotFinite) {
  for (const float bad : {std::nanf(""), INFINITY}) {
    const Tensor a = F({1, 2, bad, 4}, {2, 2});
    const auto refused = [&](const char* type, int outputs) {
      OperatorCase(type).Input(a).Outputs(outputs).ExpectError(
          ErrorCode::kInvalidArgument, "holds a NaN or an infinity (row 1, column 0)");
    };
    refused("aten::linalg_svd", 3);
    refused("aten::linalg_svdvals", 1);
    refused("aten::linalg_eig", 2);
    refused("aten::linalg_eigh", 2);
    refused("aten::linalg_pinv", 1);
    // The other triangle does not count.
    EXPECT_EQ(Factors("aten::linalg_eigh", {a, Value("U")}, 2)[0].shape(), (Shape{2}));
  }
  // What does not iterate gives NaN, as torch does.
  const Tensor a = F({std::nanf(""), 2, 1, 4}, {2, 2});
  EXPECT_TRUE(std::isnan(Factors("aten::linalg_det", {a}, 1)[0].data<float>()[0]));
  EXPECT_TRUE(std::isnan(Factors("aten::linalg_inv", {a}, 1)[0].data<float>()[0]));
  OperatorCase("aten::linalg_cholesky")
      .Input(a)
      .Input(Value(false))
      .ExpectError(ErrorCode::kInvalidArgument, "not positive definite (at column 1)");
}

TEST_F(Linalg, TellsOfSingularMatricesInABatch) {
  const Tensor a = F({1, 0, 0, 1, 1, 2, 2, 4}, {2, 2, 2});
  const auto of = Factors("aten::linalg_inv_ex", {a, Value(false)}, 2);
  ExpectNear(of[1], Tensor::From<int32_t>({0, 2}, {2}));
  OperatorCase("aten::linalg_inv_ex")
      .Input(a)
      .Input(Value(true))
      .Outputs(2)
      .ExpectError(ErrorCode::kInvalidArgument, "the matrix is singular (at column 2)");
  OperatorCase("aten::linalg_solve_ex")
      .Input(a)
      .Input(a)
      .Input(Value(true))
      .Input(Value(true))
      .Outputs(2)
      .ExpectError(ErrorCode::kInvalidArgument, "the matrix is singular (at column 2)");
  OperatorCase("aten::linalg_lstsq")
      .Input(F({1, 0, 2, 0}, {2, 2}))
      .Input(F({1, 2}, {2, 1}))
      .Input(Value())
      .Input(Value("gels"))
      .Outputs(4)
      .ExpectError(ErrorCode::kInvalidArgument, "not of full rank, as the driver gels needs it");
}

}  // namespace
}  // namespace oort::testing
