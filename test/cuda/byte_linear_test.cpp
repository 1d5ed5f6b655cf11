// SPDX-License-Identifier: MIT
// Products of bytes on the GPU against what bytes and units say they are, summed up in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "cuda/device.h"
#include "cuda/quantized_case.h"
#include "layers/quantized_linear/byte_rows.h"
#include "oort/runtime_graph.h"
#include "oort/session.h"
#include "oort/testing.h"

namespace oort {
namespace {

/// Rows whose activations keep 16 bits. Rows of i8 that make whole chunks are multiplied as other
/// weights of 8 bits are, until there are many rows of x.
int64_t MostFew(const QuantizedCase& tested, ByteKind kind) {
  return kind == ByteKind::kInt8 && tested.columns % 32 == 0 ? 256 : 8;
}

/// A result, and how far from it the GPU's may be.
struct Bounded {
  double value = 0, bound = 0;
};

/// Rows of numbers, and the most that each was moved by rounding it.
struct Rounded {
  std::vector<double> values, errors;
};

class ByteProducts {
 public:
  ByteProducts(const QuantizedCase& tested, ByteKind kind) : tested_(tested), kind_(kind) {
    for (size_t part = 0; part < tested.part_rows.size(); ++part) {
      const StoredMatrix stored = tested.Part(part);
      std::vector<double>& weights = weights_.emplace_back();
      std::vector<float> scratch;
      std::vector<uint8_t> bytes(static_cast<size_t>(stored.columns));
      for (int64_t row = 0; row < stored.rows; ++row) {
        const double unit = RoundWeights(kind, stored, row, scratch, bytes.data());
        for (const uint8_t byte : bytes) {
          weights.push_back(unit * static_cast<double>(ValueOfByte(kind, byte)));
        }
      }
    }
  }

  /// Of a row of x: the results of all outputs, one behind the other.
  std::vector<Bounded> Row(const float* x, const float* addend, bool few) const {
    const Rounded in = few ? Sixteen(x) : Eight(x);
    std::vector<Bounded> results;
    for (size_t part = 0; part < weights_.size(); ++part) {
      for (int64_t row = 0; row < tested_.part_rows[part]; ++row) {
        results.push_back(Product(in, part, row));
      }
    }
    if (tested_.gated) return Gated(results);
    if (addend != nullptr) {
      for (size_t i = 0; i < static_cast<size_t>(tested_.part_rows[0]); ++i) {
        results[i].value += static_cast<double>(addend[i]);
        results[i].bound += std::abs(results[i].value) * 1e-6;
      }
    }
    return results;
  }

 private:
  /// Behind the norm.
  std::vector<double> Normed(const float* x) const {
    std::vector<double> values(x, x + tested_.columns);
    if (!tested_.norm) return values;
    double squares = 0;
    for (const double value : values) squares += value * value;
    const double factor = 1 / std::sqrt(squares / static_cast<double>(tested_.columns) + 1e-6);
    const Tensor gain = tested_.Gain();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] *= factor * static_cast<double>(gain.data<float>()[i]);
    }
    return values;
  }

  /// As f16 in units that the row fits into, or as whole numbers of 15 bits. Weights that f16 has
  /// no room for meet x in bf16, which has 8.
  Rounded Sixteen(const float* x) const {
    Rounded in{Normed(x), {}};
    const double digits = tested_.weight_unit == 1 ? 0x1p-10 : 0x1p-8;  // of both sides
    double largest = 0;
    for (const double value : in.values) largest = std::max(largest, std::abs(value));
    for (const double value : in.values) {
      in.errors.push_back(std::abs(value) * digits + largest * 0x1p-14);
    }
    return in;
  }

  /// As bytes. Behind a norm, which the GPU computes in f32, a number near the middle of two bytes
  /// may become either: then it is where it was, give or take half a step.
  Rounded Eight(const float* x) const {
    const std::vector<double> exact = Normed(x);
    const std::vector<float> values(exact.begin(), exact.end());
    std::vector<uint8_t> bytes(values.size());
    const double unit =
        RoundActivations(kind_, values.data(), static_cast<int64_t>(values.size()), bytes.data());
    Rounded in;
    for (size_t i = 0; i < values.size(); ++i) {
      const double step =
          kind_ == ByteKind::kInt8 ? unit : std::max(std::abs(exact[i]) / 8, unit / 512);
      in.values.push_back(tested_.norm ? exact[i]
                                       : unit * static_cast<double>(ValueOfByte(kind_, bytes[i])));
      in.errors.push_back(tested_.norm ? step / 2 * (1 + 1e-4) : 0);
    }
    return in;
  }

  Bounded Product(const Rounded& in, size_t part, int64_t row) const {
    const double* const weights = &weights_[part][static_cast<size_t>(row * tested_.columns)];
    Bounded result;
    double sizes = 0;
    for (size_t i = 0; i < in.values.size(); ++i) {
      result.value += weights[i] * in.values[i];
      result.bound += std::abs(weights[i]) * in.errors[i];
      sizes += std::abs(weights[i] * in.values[i]);
    }
    // Sums of i32 are exact. Those of e4m3 keep 13 bits behind the point of the largest of the
    // numbers that are added at once, those of f16 as many as f32.
    const bool tensor_sums = kind_ == ByteKind::kFp8 && in.errors[0] == 0;
    result.bound += sizes * (tensor_sums ? 0x1p-11 : 0x1p-20) + std::abs(result.value) * 1e-6;
    if (tested_.bias) {
      result.value += static_cast<double>(tested_.Bias(part).data<float>()[row]);
      result.bound += std::abs(result.value) * 1e-6;
    }
    return result;
  }

  /// silu(gate) * up; silu rises by 1.1 at most.
  static std::vector<Bounded> Gated(const std::vector<Bounded>& both) {
    const size_t count = both.size() / 2;
    std::vector<Bounded> results;
    for (size_t i = 0; i < count; ++i) {
      const Bounded &gate = both[i], &up = both[count + i];
      const double silu = gate.value / (1 + std::exp(-gate.value)), silu_bound = 1.1 * gate.bound;
      results.push_back(
          {silu * up.value, std::abs(silu) * up.bound + std::abs(up.value) * silu_bound +
                                silu_bound * up.bound + 1e-5 * std::abs(silu * up.value)});
    }
    return results;
  }

  QuantizedCase tested_;
  ByteKind kind_;
  std::vector<std::vector<double>> weights_;  ///< of the parts
};

class CudaByteLinear : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string reason;
    const std::vector<cuda::DeviceInfo> devices = cuda::Devices(&reason);
    if (devices.empty()) GTEST_SKIP() << reason;
    if (devices[0].compute_major < 9) GTEST_SKIP() << "products of bytes need Hopper";
  }

  static ByteKind Kind() { return *ByteKindNamed(GetParam()); }

  static QuantizedCase Case() {
    QuantizedCase tested;
    tested.activations = GetParam();
    return tested;
  }

  static std::shared_ptr<const RuntimeGraph> Load(const QuantizedCase& tested) {
    LoadOptions options;
    options.device = Device::Cuda(0);
    options.precision = Precision::kBF16;
    options.disabled_passes = {"narrow-floats"};
    return RuntimeGraph::Build(tested.Build(), options);
  }

  static std::vector<Tensor> Run(const std::shared_ptr<const RuntimeGraph>& graph,
                                 const std::vector<Tensor>& inputs) {
    for (const NodeReport& node : graph->Plan(inputs).nodes) {
      EXPECT_EQ(node.fallback, "") << node.type;
    }
    // Step by step, recorded and replayed.
    Session session(graph);
    const std::vector<Tensor> first = session.Forward(inputs);
    for (int again = 0; again < 2; ++again) {
      const std::vector<Tensor> more = session.Forward(inputs);
      for (size_t i = 0; i < first.size(); ++i) {
        EXPECT_EQ(std::memcmp(first[i].raw(), more[i].raw(), first[i].bytes()), 0);
      }
    }
    return first;
  }

  /// All rows, or some of many.
  static void ExpectProducts(const QuantizedCase& tested, const std::vector<Tensor>& inputs,
                             const std::vector<Tensor>& got) {
    const ByteProducts products(tested, Kind());
    const int64_t rows = inputs[0].dim(0), stride = std::max<int64_t>(1, rows / 20);
    for (int64_t row = 0; row < rows; row += stride) {
      const float* const addend =
          tested.addend ? inputs[1].data<float>() + row * tested.part_rows[0] : nullptr;
      const std::vector<Bounded> want = products.Row(inputs[0].data<float>() + row * tested.columns,
                                                     addend, rows <= MostFew(tested, Kind()));
      size_t at = 0;
      for (const Tensor& output : got) {
        for (int64_t i = 0; i < output.dim(1); ++i, ++at) {
          const double value = output.data<float>()[row * output.dim(1) + i];
          ASSERT_LE(std::abs(value - want[at].value), want[at].bound)
              << "row " << row << " of " << rows << ", result " << at << ": " << value << " for "
              << want[at].value;
        }
      }
      ASSERT_EQ(at, want.size());
    }
  }

  static void ExpectProducts(const QuantizedCase& tested, const std::vector<int64_t>& rows) {
    const auto graph = Load(tested);
    for (const int64_t count : rows) {
      SCOPED_TRACE(std::string(Name(tested.format)) + " columns " + std::to_string(tested.columns) +
                   " rows " + std::to_string(count));
      const std::vector<Tensor> inputs = tested.Inputs(count);
      ExpectProducts(tested, inputs, Run(graph, inputs));
    }
  }
};

TEST_P(CudaByteLinear, RowsOfAnyNumber) {
  ExpectProducts(Case(), {1, 2, 7, 8, 9, 16, 17, 64, 129, 256, 257, 1000});
}

TEST_P(CudaByteLinear, AllFormats) {
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kInt8,
                                    WeightFormat::kUint8, WeightFormat::kQ8_0}) {
    QuantizedCase tested = Case();
    tested.format = format;
    ExpectProducts(tested, {1, 40, 300});
  }
}

TEST_P(CudaByteLinear, OddSizes) {
  for (const int64_t columns : {1, 5, 63, 64, 65, 96, 100, 4160}) {
    for (const int64_t outputs : {1, 7, 16, 33}) {
      QuantizedCase tested = Case();
      tested.columns = columns;
      tested.part_rows = {outputs};
      ExpectProducts(tested, {3, 21, 261});
    }
  }
}

TEST_P(CudaByteLinear, PartsNormsBiasesGatesAndAddends) {
  for (const bool norm : {false, true}) {
    for (const bool bias : {false, true}) {
      QuantizedCase tested = Case();
      tested.norm = norm;
      tested.bias = bias;
      tested.part_rows = {48, 16, 16};
      ExpectProducts(tested, {1, 8, 30, 290});
      tested.part_rows = {37, 5, 18};
      ExpectProducts(tested, {1, 8, 30, 290});
      tested.part_rows = {40, 40};
      tested.gated = true;
      ExpectProducts(tested, {1, 8, 30, 290});
      tested.part_rows = {43, 43};
      ExpectProducts(tested, {1, 8, 30, 290});
      tested.gated = false;
      tested.addend = true;
      tested.part_rows = {48};
      ExpectProducts(tested, {1, 8, 30, 290});
      tested.part_rows = {45};
      ExpectProducts(tested, {1, 8, 30, 290});
    }
  }
}

TEST_P(CudaByteLinear, LargeMatrices) {
  QuantizedCase tested = Case();
  tested.columns = 4096;
  tested.part_rows = {1024, 512, 512};
  ExpectProducts(tested, {1, 8, 64, 700});
  tested.columns = 11008;
  tested.part_rows = {4096};
  ExpectProducts(tested, {1, 8, 300});
}

TEST_P(CudaByteLinear, NumbersOfAnySize) {
  for (const float unit : {1e-30F, 1e-8F, 1e8F, 1e30F}) {
    QuantizedCase tested = Case();
    tested.format = WeightFormat::kF32;
    tested.unit = unit;
    ExpectProducts(tested, {4, 20, 260});
    tested.unit = 1;
    tested.weight_unit = unit;
    ExpectProducts(tested, {4, 20, 260});
  }
}

/// Numbers of e4m3 with the largest one among them are not rounded at all, nor are bytes with 127.
TEST_P(CudaByteLinear, TheLargestBytes) {
  const QuantizedCase tested = Case();
  std::vector<Tensor> inputs = tested.Inputs(288);
  float* const x = inputs[0].data<float>();
  for (int64_t i = 0; i < inputs[0].elements(); ++i) {
    const auto number = static_cast<uint8_t>(i * 37 % 127);  // 0x7f is none
    const float size = Kind() == ByteKind::kFp8 ? ValueOfE4m3(number) : static_cast<float>(number);
    x[i] = i % 3 == 0 ? -size : size;
    if (i % tested.columns == 5) x[i] = LargestByte(Kind());
  }
  ExpectProducts(tested, inputs, Run(Load(tested), inputs));
}

/// Zeros give the bias alone; a number that is not finite spoils its row, and no other.
TEST_P(CudaByteLinear, RowsOfZerosAndOfNoNumbers) {
  QuantizedCase tested = Case();
  tested.bias = true;
  const auto graph = Load(tested);
  for (const int64_t rows : {6, 24, 280}) {
    std::vector<Tensor> inputs = tested.Inputs(rows);
    float* const x = inputs[0].data<float>();
    const std::vector<Tensor> plain = Run(graph, inputs);
    std::fill_n(x + tested.columns, tested.columns, 0.0F);
    x[2 * tested.columns + 17] = std::numeric_limits<float>::quiet_NaN();
    x[4 * tested.columns + 575] = std::numeric_limits<float>::infinity();
    Session session(graph);
    const Tensor got = session.Forward(inputs)[0];
    const int64_t width = tested.part_rows[0];
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < width; ++i) {
        const float value = got.data<float>()[row * width + i];
        if (row == 1) {
          ASSERT_EQ(value, tested.Bias(0).data<float>()[i]);
        } else if (row == 2 || row == 4) {
          ASSERT_FALSE(std::isfinite(value)) << "row " << row;
        } else {
          ASSERT_EQ(value, plain[0].data<float>()[row * width + i]) << "row " << row;
        }
      }
    }
  }
}

/// A step of few answers gives each what it gets alone.
TEST_P(CudaByteLinear, ARowDoesNotDependOnItsNeighbours) {
  QuantizedCase tested = Case();
  tested.norm = true;
  const auto graph = Load(tested);
  constexpr int64_t kRows = 8;
  const std::vector<Tensor> inputs = tested.Inputs(kRows);
  const std::vector<Tensor> all = Run(graph, inputs);
  for (int64_t row = 0; row < kRows; ++row) {
    const std::vector<Tensor> alone = Run(graph, {inputs[0].Rows(row, row + 1)});
    const Tensor want = all[0].Rows(row, row + 1);
    EXPECT_EQ(std::memcmp(alone[0].raw(), want.raw(), want.bytes()), 0) << row;
  }
}

/// Weights of 4 bits are multiplied as they are everywhere else.
TEST_P(CudaByteLinear, WeightsOfFourBitsStay) {
  QuantizedCase tested = Case(), plain = Case();
  tested.format = plain.format = WeightFormat::kInt4;
  plain.activations = "floats";
  for (const int64_t rows : {1, 40}) {
    const std::vector<Tensor> inputs = tested.Inputs(rows);
    const Tensor got = Run(Load(tested), inputs)[0], want = Run(Load(plain), inputs)[0];
    EXPECT_EQ(std::memcmp(got.raw(), want.raw(), want.bytes()), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, CudaByteLinear, ::testing::Values("int8", "fp8"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace oort
