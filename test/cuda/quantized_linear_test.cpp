// SPDX-License-Identifier: MIT
// Products with weights of 16 to 4 bits on the GPU against the CPU's exact ones.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "cuda/device.h"
#include "cuda/quantized_case.h"
#include "oort/runtime_graph.h"
#include "oort/session.h"
#include "oort/testing.h"

namespace oort {
namespace {

class CudaQuantizedLinear : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    if (cuda::Devices(&reason).empty()) GTEST_SKIP() << reason;
  }

  static std::shared_ptr<const RuntimeGraph> Load(const QuantizedCase& tested, Device device,
                                                  Precision precision) {
    LoadOptions options;
    options.device = device;
    options.precision = precision;
    options.disabled_passes = {"narrow-floats"};
    return RuntimeGraph::Build(tested.Build(), options);
  }

  static std::vector<Tensor> Run(const QuantizedCase& tested, int64_t rows, Device device,
                                 Precision precision) {
    return Run(Load(tested, device, precision), tested.Inputs(rows));
  }

  static std::vector<Tensor> Run(const std::shared_ptr<const RuntimeGraph>& graph,
                                 const std::vector<Tensor>& inputs) {
    for (const NodeReport& node : graph->Plan(inputs).nodes) {
      EXPECT_EQ(node.fallback, "") << node.type;
    }
    // Step by step, recorded and replayed: one leaves nothing behind that disturbs the next.
    Session session(graph);
    const std::vector<Tensor> first = session.Forward(inputs);
    const int runs = graph->device().type == DeviceType::kCuda ? 3 : 0;
    for (int again = 0; again < runs; ++again) {
      const std::vector<Tensor> more = session.Forward(inputs);
      for (size_t i = 0; i < first.size(); ++i) {
        EXPECT_EQ(std::memcmp(first[i].raw(), more[i].raw(), first[i].bytes()), 0);
      }
    }
    return first;
  }

  /// Relative to the largest result.
  static void ExpectSame(const QuantizedCase& tested, int64_t rows, Precision precision,
                         double tolerance) {
    ExpectSame(tested, {{rows, tolerance}}, precision);
  }

  /// The first rows of the same inputs by the same weights, which are made once: as many rows as
  /// each of `steps` says, and how near their results are.
  static void ExpectSame(const QuantizedCase& tested,
                         const std::vector<std::pair<int64_t, double>>& steps,
                         Precision precision) {
    const std::vector<Tensor> inputs = tested.Inputs(steps.back().first);
    const std::vector<Tensor> all = Run(Load(tested, Device::Cpu(), Precision::kF32), inputs);
    const auto graph = Load(tested, Device::Cuda(0), precision);
    for (const auto& [rows, tolerance] : steps) {
      SCOPED_TRACE(std::string(Name(tested.format)) + " group " + std::to_string(tested.group) +
                   " columns " + std::to_string(tested.columns) + " rows " + std::to_string(rows));
      std::vector<Tensor> first;
      for (const Tensor& input : inputs) first.push_back(RowsOf(input, 0, rows));
      const std::vector<Tensor> got = Run(graph, first);
      ASSERT_EQ(got.size(), all.size());
      for (size_t i = 0; i < all.size(); ++i) {
        const Tensor want = RowsOf(all[i], 0, rows);
        double largest = 0;
        for (float value : want.span<float>()) {
          largest = std::max(largest, std::abs(static_cast<double>(value)));
        }
        testing::ExpectNear(got[i], want, {tolerance * largest, 0});
      }
    }
  }

  /// Rows [first, first + count) of a matrix.
  static Tensor RowsOf(const Tensor& matrix, int64_t first, int64_t count) {
    const int64_t columns = matrix.shape()[1];
    Tensor rows(matrix.dtype(), {count, columns});
    std::memcpy(rows.raw(), matrix.data<float>() + first * columns, rows.bytes());
    return rows;
  }

  /// All of `most` rows, in steps of so many, have the bits that each has alone.
  static void ExpectRowsAsAlone(const QuantizedCase& tested, Precision precision, int64_t most,
                                const std::vector<int64_t>& steps) {
    SCOPED_TRACE(std::string(Name(tested.format)) + " group " + std::to_string(tested.group) +
                 " columns " + std::to_string(tested.columns));
    Session session(Load(tested, Device::Cuda(0), precision));
    const std::vector<Tensor> all = tested.Inputs(most);
    const auto forward = [&](int64_t first, int64_t count) {
      std::vector<Tensor> inputs;
      for (const Tensor& input : all) inputs.push_back(RowsOf(input, first, count));
      return session.Forward(inputs);
    };
    std::vector<std::vector<Tensor>> alone;
    for (int64_t row = 0; row < most; ++row) alone.push_back(forward(row, 1));
    for (const int64_t rows : steps) {
      for (int64_t first = 0; first + rows <= most; first += rows) {
        const std::vector<Tensor> together = forward(first, rows);
        for (size_t part = 0; part < together.size(); ++part) {
          for (int64_t i = 0; i < rows; ++i) {
            const Tensor& one = alone[static_cast<size_t>(first + i)][part];
            const Tensor row = RowsOf(together[part], i, 1);
            ASSERT_EQ(std::memcmp(row.raw(), one.raw(), one.bytes()), 0)
                << rows << " rows, row " << i << ", part " << part;
          }
        }
      }
    }
  }
};

TEST_F(CudaQuantizedLinear, AllFormatsGroupsAndRows) {
  const std::vector<std::pair<WeightFormat, std::vector<int64_t>>> formats = {
      {WeightFormat::kBf16, {32}},          {WeightFormat::kF16, {32}},
      {WeightFormat::kInt8, {32, 64, 128}}, {WeightFormat::kUint8, {32, 64}},
      {WeightFormat::kInt4, {32, 64, 128}}, {WeightFormat::kUint4, {32, 64}}};
  for (const auto& [format, groups] : formats) {
    for (int64_t group : groups) {
      for (int64_t columns : {128, 640, 4224}) {
        for (int64_t rows : {1, 3, 5, 16, 17, 40}) {
          QuantizedCase tested;
          tested.format = format;
          tested.group = group;
          tested.columns = columns;
          ExpectSame(tested, rows, Precision::kF32, 3e-5);
        }
      }
    }
  }
}

TEST_F(CudaQuantizedLinear, OddSizes) {
  for (WeightFormat format : {WeightFormat::kBf16, WeightFormat::kF16}) {
    for (int64_t columns : {1, 7, 63, 65, 100}) {
      QuantizedCase tested;
      tested.format = format;
      tested.columns = columns;
      tested.part_rows = {5, 33, 1};
      // The largest of a few results may be small itself.
      for (int64_t rows : {1, 9, 20}) ExpectSame(tested, rows, Precision::kF32, 3e-4);
    }
  }
  QuantizedCase tested;
  tested.format = WeightFormat::kInt4;
  tested.columns = 96;  // not whole steps
  tested.part_rows = {17, 3};
  for (int64_t rows : {1, 9, 20}) ExpectSame(tested, rows, Precision::kF32, 3e-4);
}

TEST_F(CudaQuantizedLinear, NormsBiasesGatesAndAddends) {
  for (WeightFormat format : {WeightFormat::kBf16, WeightFormat::kInt8, WeightFormat::kInt4}) {
    for (int choice = 0; choice < 16; ++choice) {
      QuantizedCase tested;
      tested.format = format;
      tested.gated = choice & 1;
      tested.norm = choice & 2;
      tested.bias = choice & 4;
      tested.addend = (choice & 8) && !tested.gated;  // a gate has none on the GPU
      tested.part_rows = tested.gated ? std::vector<int64_t>{36, 36} : std::vector<int64_t>{36};
      SCOPED_TRACE(choice);
      for (int64_t rows : {1, 6, 70}) ExpectSame(tested, rows, Precision::kF32, 5e-5);
      // Many rows in the fast mode: both sides are rounded, to f16 where the weights are packed.
      ExpectSame(tested, 70, Precision::kBF16, format == WeightFormat::kBf16 ? 2e-2 : 1e-3);
    }
  }
}

// More strips than there are multiprocessors: blocks have several.
TEST_F(CudaQuantizedLinear, LargeMatrices) {
  for (WeightFormat format : {WeightFormat::kBf16, WeightFormat::kInt8, WeightFormat::kInt4}) {
    for (int64_t columns : {128, 320}) {
      for (bool gated : {false, true}) {
        QuantizedCase tested;
        tested.format = format;
        tested.columns = columns;
        tested.gated = gated;
        tested.norm = tested.bias = true;
        tested.addend = !gated;
        tested.part_rows =
            gated ? std::vector<int64_t>{1720, 1720} : std::vector<int64_t>{2213, 1001};
        for (int64_t rows : {1, 7}) ExpectSame(tested, rows, Precision::kF32, 5e-5);
      }
    }
  }
}

TEST_F(CudaQuantizedLinear, NumbersOfAnySize) {
  for (WeightFormat format : {WeightFormat::kBf16, WeightFormat::kF16, WeightFormat::kInt8,
                              WeightFormat::kUint8, WeightFormat::kInt4, WeightFormat::kUint4}) {
    for (float unit : {0.0f, 1e-30f, 1e-12f, 1e6f, 1e30f}) {
      SCOPED_TRACE(unit);
      QuantizedCase tested;
      tested.format = format;
      tested.unit = unit;
      for (int64_t rows : {1, 6}) ExpectSame(tested, rows, Precision::kF32, 5e-5);
      // Plain weights are multiplied as in the exact mode.
      for (int64_t rows : {1, 6}) ExpectSame(tested, rows, Precision::kBF16, 5e-4);
    }
    QuantizedCase tested;
    tested.format = format;
    tested.unit = INFINITY;
    const std::vector<Tensor> got = Run(tested, 1, Device::Cuda(0), Precision::kF32);
    for (float value : got[0].span<float>()) EXPECT_FALSE(std::isfinite(value));
  }
}

// Products in f16: packed weights as they are up to 128 rows, in blocks of 32, 64 and 128, and
// unpacked behind that. Exact ones have two f16 for each number.
TEST_F(CudaQuantizedLinear, ManyRowsOfAllFormatsAndGroups) {
  for (WeightFormat format :
       {WeightFormat::kInt8, WeightFormat::kUint8, WeightFormat::kInt4, WeightFormat::kUint4}) {
    for (int64_t group : {32, 64, 128}) {
      for (DType scale : {DType::kF16, DType::kF32}) {
        for (int64_t columns :
             {group * 3, int64_t{640}}) {  // the first are no whole splits or steps
          QuantizedCase tested;
          tested.format = format;
          tested.group = group;
          tested.scale = scale;
          tested.columns = columns;
          tested.part_rows = {40, 23, 300};
          SCOPED_TRACE(Name(scale));
          for (int64_t rows : {17, 33, 100, 128, 129}) {
            ExpectSame(tested, rows, Precision::kBF16, 1e-3);
          }
          for (int64_t rows : {17, 129}) ExpectSame(tested, rows, Precision::kF32, 2e-5);
        }
      }
    }
  }
}

// Parts that follow each other without a gap are one product; the last may end anywhere.
TEST_F(CudaQuantizedLinear, ManyRowsOfPartsWithoutGaps) {
  for (WeightFormat format : {WeightFormat::kBf16, WeightFormat::kF16}) {
    for (int choice = 0; choice < 4; ++choice) {
      QuantizedCase tested;
      tested.format = format;
      tested.bias = choice & 1;
      tested.norm = choice & 2;
      tested.part_rows = {48, 160, 23};
      SCOPED_TRACE(choice);
      for (int64_t rows : {17, 70, 300, 513}) {
        ExpectSame(tested, rows, Precision::kBF16, format == WeightFormat::kBf16 ? 2e-2 : 1e-3);
      }
      ExpectSame(tested, 70, Precision::kF32, 5e-5);
    }
  }
}

// f16 has neither the range of what may come in nor of what weights may be.
TEST_F(CudaQuantizedLinear, ManyRowsOfAnySize) {
  for (WeightFormat format : {WeightFormat::kF16, WeightFormat::kInt8, WeightFormat::kUint4}) {
    for (bool gated : {false, true}) {
      QuantizedCase tested;
      tested.format = format;
      tested.gated = gated;
      tested.bias = !gated;
      tested.part_rows = gated ? std::vector<int64_t>{36, 36} : std::vector<int64_t>{36, 20};
      for (float unit : {0.0f, 1e-30f, 1e-12f, 1e6f, 1e15f}) {
        SCOPED_TRACE(unit);
        tested.unit = unit;
        ExpectSame(tested, 40, Precision::kBF16, 1e-3);
        ExpectSame(tested, 40, Precision::kF32, 5e-5);
      }
    }
  }
  for (float weight_unit : {1e-4f, 1e6f}) {
    SCOPED_TRACE(weight_unit);
    QuantizedCase tested;
    tested.format = WeightFormat::kInt8;
    tested.scale = DType::kF32;
    tested.weight_unit = weight_unit;
    ExpectSame(tested, 40, Precision::kBF16, 1e-2);
    ExpectSame(tested, 40, Precision::kF32, 5e-5);
  }
}

TEST_F(CudaQuantizedLinear, ARowDoesNotDependOnItsNeighbours) {
  for (Precision precision : {Precision::kF32, Precision::kBF16}) {
    QuantizedCase tested;
    tested.format = WeightFormat::kInt4;
    tested.norm = true;
    tested.part_rows = {2600};
    const std::vector<Tensor> alone = Run(tested, 1, Device::Cuda(0), precision);
    for (int64_t rows : {2, 5, 8, 12}) {
      SCOPED_TRACE(rows);
      const std::vector<Tensor> together = Run(tested, rows, Device::Cuda(0), precision);
      EXPECT_EQ(std::memcmp(together[0].raw(), alone[0].raw(), alone[0].bytes()), 0);
    }
  }
}

// One row and several are different kernels, which sum in the same order: of all kinds of packed
// weights, of columns that are no whole quarters for the blocks of a cluster, or fewer than they
// are, and of strips that fill no whole rounds.
TEST_F(CudaQuantizedLinear, RowsOfTheFastModeAreAsAlone) {
  for (WeightFormat format :
       {WeightFormat::kInt8, WeightFormat::kUint8, WeightFormat::kInt4, WeightFormat::kUint4}) {
    for (int64_t group : {32, 64}) {
      for (DType scale : {DType::kF16, DType::kF32}) {
        QuantizedCase tested;
        tested.format = format;
        tested.group = group;
        tested.scale = scale;
        tested.columns = 704;
        tested.norm = tested.bias = tested.addend = true;
        tested.part_rows = {1800, 1001};
        SCOPED_TRACE(Name(scale));
        ExpectRowsAsAlone(tested, Precision::kBF16, 16, {2, 4, 5, 8, 11, 16});
      }
    }
  }
  for (int64_t columns : {64, 192, 1024, 4096, 11008}) {
    QuantizedCase tested;
    tested.format = WeightFormat::kInt4;
    tested.group = 64;
    tested.columns = columns;
    tested.gated = columns % 4096 == 0;
    tested.norm = tested.gated;
    tested.part_rows = tested.gated ? std::vector<int64_t>{2200, 2200} : std::vector<int64_t>{5000};
    ExpectRowsAsAlone(tested, Precision::kBF16, 16, {2, 5, 8, 16});
  }
}

// In the fast mode x has two digits of 8 bits, and up to 8 rows are one launch.
TEST_F(CudaQuantizedLinear, FewRowsInTheFastMode) {
  for (WeightFormat format :
       {WeightFormat::kInt8, WeightFormat::kUint8, WeightFormat::kInt4, WeightFormat::kUint4}) {
    for (int64_t group : {32, 64}) {
      for (DType scale : {DType::kF16, DType::kF32}) {
        for (int64_t columns : {group * 3, int64_t{11008}}) {
          QuantizedCase tested;
          tested.format = format;
          tested.group = group;
          tested.scale = scale;
          tested.columns = columns;
          tested.part_rows = {40, 23};
          SCOPED_TRACE(Name(scale));
          ExpectSame(tested, {{1, 5e-4}, {5, 5e-4}, {13, 5e-4}}, Precision::kBF16);
        }
      }
    }
  }
}

// Enough strips for blocks to stage x together.
TEST_F(CudaQuantizedLinear, FewRowsOfLargeMatricesInTheFastMode) {
  for (WeightFormat format : {WeightFormat::kInt8, WeightFormat::kUint4}) {
    for (int64_t columns : {128, 320, 4224}) {
      for (bool gated : {false, true}) {
        QuantizedCase tested;
        tested.format = format;
        tested.columns = columns;
        tested.gated = gated;
        tested.norm = tested.bias = true;
        tested.addend = !gated;
        tested.part_rows =
            gated ? std::vector<int64_t>{1720, 1720} : std::vector<int64_t>{2213, 1001};
        std::vector<std::pair<int64_t, double>> steps;
        for (int64_t rows : {1, 3, 7, 12, 16, 24, 32}) {
          steps.emplace_back(rows, rows > 16 ? 1e-3 : 5e-4);
        }
        ExpectSame(tested, steps, Precision::kBF16);
      }
    }
  }
}

}  // namespace
}  // namespace oort
