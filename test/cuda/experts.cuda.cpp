// SPDX-License-Identifier: MIT
// Mixtures of experts on the GPU: routing against the CPU's, and the whole operator against the
// CPU's exact one.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "decoder/graph_writer.h"
#include "device_case.h"
#include "layers/experts/cuda/route_experts.h"
#include "layers/experts/cuda/split_rows.h"
#include "layers/quantized_linear/cuda/device_matrix.h"
#include "oort/runtime_graph.h"
#include "oort/session.h"
#include "oort/testing.h"
#include "weights/quantize_weights.h"

namespace oort {
namespace {

// ---- Routing -----------------------------------------------------------------------------------

/// Pairs as the GPU left them.
struct FetchedPairs {
  std::vector<int> experts, order, starts, in_use;
  std::vector<float> weights;
};

std::vector<int> FetchNumbers(const Tensor& tensor) {
  const Tensor host = cuda::ToHost(tensor);
  return {host.data<int32_t>(), host.data<int32_t>() + host.elements()};
}

FetchedPairs RouteOnDevice(const RoutingRule& rule, const Tensor& logits, int64_t first,
                           int64_t held) {
  const Device device = Device::Cuda(0);
  const int64_t tokens = logits.dim(0), pairs = tokens * rule.used;
  constexpr int64_t kColumns = 40;
  cuda::Stream stream(0);
  const Tensor x =
      cuda::OnDevice(cuda::RandomValues(DType::kF32, {tokens, kColumns}, 5), DType::kF32);
  const Tensor on_device = cuda::ToDevice(logits, device);
  const auto numbers = [&](int64_t count) { return cuda::Poisoned(stream, DType::kI32, {count}); };
  Tensor experts = numbers(pairs), order = numbers(pairs), starts = numbers(held + 1),
         in_use = numbers(held + 1), weights = cuda::Poisoned(stream, DType::kF32, {pairs});
  Tensor split = cuda::Poisoned(stream, DType::kBF16,
                                {tokens, cuda::SplitRowElements(kColumns, cuda::kExactPlanes)});
  Tensor correction;
  cuda::RoutingStep step;
  step.rule = rule;
  if (rule.correction != nullptr) {
    Tensor host(DType::kF32, {rule.experts});
    std::memcpy(host.raw(), rule.correction, host.bytes());
    correction = cuda::ToDevice(host, device);
    step.rule.correction = correction.data<float>();
  }
  step.first = first;
  step.held = held;
  step.logits = on_device.data<float>();
  step.tokens = tokens;
  step.x = x.data<float>();
  step.columns = kColumns;
  step.pairs = {experts.data<int32_t>(), weights.data<float>(), order.data<int32_t>(),
                starts.data<int32_t>(), in_use.data<int32_t>()};
  step.split_x = split.raw();
  step.planes = cuda::kExactPlanes;
  cuda::RouteExperts(stream, step);
  stream.Synchronize();
  // Three numbers of 8 bits are one of 24.
  const Tensor rows = cuda::ToHost(x), parts = cuda::ToHost(split).To(DType::kF32);
  const int64_t width = parts.dim(1);
  for (int64_t token = 0; token < tokens; ++token) {
    for (int64_t column = 0; column < cuda::SplitColumns(kColumns); ++column) {
      float sum = 0;
      for (int plane = cuda::kExactPlanes - 1; plane >= 0; --plane) {
        sum +=
            parts
                .data<float>()[token * width + cuda::SplitPlace(column, plane, cuda::kExactPlanes)];
      }
      const float want = column < kColumns ? rows.data<float>()[token * kColumns + column] : 0;
      EXPECT_EQ(sum, want) << token << ", " << column;
    }
  }
  const Tensor shares = cuda::ToHost(weights);
  return {FetchNumbers(experts),
          FetchNumbers(order),
          FetchNumbers(starts),
          FetchNumbers(in_use),
          {shares.data<float>(), shares.data<float>() + pairs}};
}

/// `first` and `held`: the experts of this rank.
void ExpectRouted(const RoutingRule& rule, const Tensor& logits, int64_t first, int64_t held) {
  SCOPED_TRACE(std::to_string(logits.dim(0)) + " tokens, " + std::to_string(rule.used) + " of " +
               std::to_string(rule.experts) + " experts");
  const FetchedPairs got = RouteOnDevice(rule, logits, first, held);
  const ExpertRouting want(rule, logits.data<float>(), logits.dim(0));
  int64_t begin = 0;
  std::vector<int> in_use;
  for (int64_t expert = 0; expert < held; ++expert) {
    const int64_t count = want.count(first + expert);
    ASSERT_EQ(got.starts[static_cast<size_t>(expert)], begin) << expert;
    std::vector<int> pairs(got.order.begin() + begin, got.order.begin() + begin + count);
    std::ranges::sort(pairs);
    for (int64_t i = 0; i < count; ++i) {
      const RoutedToken& routed = want.begin(first + expert)[i];
      const auto pair = static_cast<size_t>(pairs[static_cast<size_t>(i)]);
      ASSERT_EQ(static_cast<int64_t>(pair) / rule.used, routed.token) << expert;
      EXPECT_EQ(got.experts[pair], expert);
      const float weight = rule.scales_inputs ? routed.scale : routed.weight;
      if (std::isnan(weight)) continue;
      EXPECT_NEAR(got.weights[pair], weight, 1e-5f * weight + 1e-12f);
    }
    if (count > 0) in_use.push_back(static_cast<int>(expert));
    begin += count;
  }
  EXPECT_EQ(got.starts.back(), begin);
  ASSERT_EQ(got.in_use.back(), static_cast<int>(in_use.size()));
  EXPECT_TRUE(std::equal(in_use.begin(), in_use.end(), got.in_use.begin()));
  // A token's experts stand in their order, those of other ranks as one.
  for (size_t pair = 0; pair < got.experts.size(); ++pair) {
    if (pair % static_cast<size_t>(rule.used) == 0 || first > 0) continue;
    EXPECT_LE(got.experts[pair - 1], got.experts[pair]) << pair;
  }
}

/// So coarse that sigmoids are either alike or differ by more than their rounding.
Tensor CoarseLogits(int64_t tokens, int64_t experts) {
  Tensor logits = testing::RandomTensor(DType::kF32, {tokens, experts},
                                        static_cast<uint64_t>(7 + tokens), -256, 256);
  for (int64_t i = 0; i < logits.elements(); ++i) {
    logits.data<float>()[i] = std::round(logits.data<float>()[i]) / 64;
  }
  return logits;
}

TEST(CudaExpertRouting, IsTheCpus) {
  OORT_SKIP_WITHOUT_GPU();
  Tensor scores(DType::kF32, {512});
  for (int64_t e = 0; e < 512; ++e) scores.data<float>()[e] = static_cast<float>(e * 7 % 3);
  struct Case {
    int64_t experts, used, groups, groups_used;
  };
  for (const Case& shape : {Case{4, 2, 1, 1}, Case{128, 8, 1, 1}, Case{60, 4, 3, 2},
                            Case{256, 8, 8, 4}, Case{512, 10, 1, 1}, Case{5, 5, 1, 1}}) {
    for (const int64_t tokens : {1, 2, 33, 256, 257, 700}) {
      const Tensor logits = CoarseLogits(tokens, shape.experts);
      for (int choice = 0; choice < 8; ++choice) {
        RoutingRule rule{.experts = shape.experts, .used = shape.used};
        rule.groups = shape.groups;
        rule.groups_used = shape.groups_used;
        rule.normalized = (choice & 1) != 0;
        rule.sigmoid = (choice & 2) != 0;
        rule.scales_inputs = rule.sigmoid && rule.normalized;
        if ((choice & 4) != 0) rule.correction = scores.data<float>();
        rule.scale = 2.5f;
        ExpectRouted(rule, logits, 0, shape.experts);
      }
    }
  }
}

TEST(CudaExpertRouting, KnowsTheExpertsOfOneRank) {
  OORT_SKIP_WITHOUT_GPU();
  const Tensor logits = CoarseLogits(300, 16);
  for (const int64_t first : {0, 4, 12}) {
    ExpectRouted({.experts = 16, .used = 3}, logits, first, 4);
  }
}

TEST(CudaExpertRouting, TiesAreDecidedAsOnTheCpu) {
  OORT_SKIP_WITHOUT_GPU();
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  Tensor logits(DType::kF32, {6, 40});
  for (int64_t i = 0; i < logits.elements(); ++i) {
    const int64_t token = i / 40, e = i % 40;
    float value = 0;  // all alike
    if (token == 1) value = e % 2 == 0 ? 0.0f : -0.0f;
    if (token == 2) value = nan;
    if (token == 3) value = e == 39 || e == 7 ? 1.0f : nan;
    if (token == 4) value = e < 30 ? -infinity : e == 31 ? nan : -infinity;
    if (token == 5) value = static_cast<float>(e / 4);
    logits.data<float>()[i] = value;
  }
  for (const int64_t used : {1, 3, 8}) {
    ExpectRouted({.experts = 40, .used = used}, logits, 0, 40);
    ExpectRouted({.experts = 40, .used = used, .groups = 4, .groups_used = 2}, logits, 0, 40);
    ExpectRouted({.experts = 40, .used = used, .sigmoid = true}, logits, 0, 40);
  }
}

// ---- The operator ------------------------------------------------------------------------------

/// Needs no GPU. Gates and what they gate of each expert fill strips of their own.
TEST(CudaExperts, BeginAtWholeStrips) {
  std::vector<StoredMatrix> parts(4);
  for (StoredMatrix& part : parts) part.rows = 12;
  EXPECT_EQ(cuda::StripsOf(parts, true), 4);
  const auto rows = cuda::RowsOfStrip(parts, true, 3);
  for (int r = 0; r < cuda::kStripRows; ++r) {
    const cuda::StripRow& row = rows[static_cast<size_t>(r)];
    const bool real = r % 8 < 4;
    EXPECT_EQ(row.part, !real ? -1 : r < 8 ? 2 : 3) << r;
    EXPECT_EQ(row.row, 8 + r % 8) << r;
  }
}

struct MixtureCase {
  WeightFormat format = WeightFormat::kBf16;
  int64_t group = 32;
  DType scale = DType::kF16;
  int64_t hidden = 128, intermediate = 96, experts = 6, used = 2;
  int64_t first = 0, all = 0;
  bool bias = false, addend = false, scales_inputs = false;
  double limit = 0;
  std::string activation = "silu";
  bool on_host = false;

  StoredMatrix Weight(int64_t rows, int64_t columns, uint64_t seed) const {
    const Tensor values = testing::RandomTensor(DType::kF32, {rows, columns}, seed, -0.4, 0.4);
    StoredMatrix stored = AllocateStored({format, group, scale}, rows, columns);
    QuantizeRows(values.data<float>(), 0, rows, stored);
    return stored;
  }
  int64_t routed() const { return std::max(all, experts); }

  Graph Build() const {
    GraphWriter writer;
    std::vector<int> inputs = {
        writer.AddInput("pnnx_input_0", DType::kF32, {Shape::kUnknown, hidden}),
        writer.AddInput("pnnx_input_1", DType::kF32, {Shape::kUnknown, routed()})};
    if (addend) {
      inputs.push_back(writer.AddInput("pnnx_input_2", DType::kF32, {Shape::kUnknown, hidden}));
    }
    Written mixture{"oort.ExpertMixture", "tested"};
    for (int part = 0; part < 3; ++part) {
      const std::string suffix = part == 0 ? "" : "_" + std::to_string(part);
      const int64_t rows = experts * (part == 2 ? hidden : intermediate);
      mixture.AttachWeight(Weight(rows, part == 2 ? intermediate : hidden, 11 + part), suffix);
      if (bias) {
        mixture.Attach("bias" + suffix, testing::RandomTensor(DType::kF32, {rows}, 21 + part));
      }
    }
    mixture.Set("in_features", Value(hidden)).Set("intermediate", Value(intermediate));
    mixture.Set("experts", Value(experts)).Set("used", Value(used)).Set("limit", Value(limit));
    mixture.Set("first_expert", Value(first)).Set("all_experts", Value(all));
    mixture.Set("activation", Value(activation)).Set("normalized", Value(true));
    if (scales_inputs) mixture.Set("scales_inputs", Value(true)).Set("sigmoid", Value(true));
    if (on_host) mixture.Set("on_host", Value(true));
    const int sum = writer.AddOne(std::move(mixture), inputs);
    writer.Add({"pnnx.Output", "pnnx_output_0"}, {sum}, 0);
    return writer.Take();
  }

  std::vector<Tensor> Inputs(int64_t rows) const {
    std::vector<Tensor> inputs = {testing::RandomTensor(DType::kF32, {rows, hidden}, 41, -2, 2),
                                  testing::RandomTensor(DType::kF32, {rows, routed()}, 42, -3, 3)};
    if (addend) inputs.push_back(testing::RandomTensor(DType::kF32, {rows, hidden}, 43));
    return inputs;
  }

  std::shared_ptr<const RuntimeGraph> Load(Device device, Precision precision) const {
    LoadOptions options;
    options.device = device;
    options.precision = precision;
    options.disabled_passes = {"narrow-floats"};
    return RuntimeGraph::Build(Build(), options);
  }
};

/// Relative to the largest result, for so many rows each.
void ExpectMixed(const MixtureCase& tested, const std::vector<int64_t>& steps, double exact,
                 double fast) {
  SCOPED_TRACE(std::string(Name(tested.format)) + " group " + std::to_string(tested.group) + ", " +
               std::to_string(tested.hidden) + " to " + std::to_string(tested.intermediate));
  Session cpu(tested.Load(Device::Cpu(), Precision::kF32));
  for (const Precision precision : {Precision::kF32, Precision::kBF16}) {
    const auto graph = tested.Load(Device::Cuda(0), precision);
    Session session(graph);
    for (const int64_t rows : steps) {
      SCOPED_TRACE(std::to_string(rows) + " rows");
      const std::vector<Tensor> inputs = tested.Inputs(rows);
      const Tensor want = cpu.Forward(inputs)[0];
      float largest = 0;
      for (const float value : want.span<float>()) largest = std::max(largest, std::abs(value));
      for (const NodeReport& node : graph->Plan(inputs).nodes) EXPECT_EQ(node.fallback, "");
      const Tensor got = session.Forward(inputs)[0];
      const double tolerance = precision == Precision::kF32 ? exact : fast;
      testing::ExpectNear(got, want, {tolerance * static_cast<double>(largest), 0});
      // Recorded, and replayed.
      for (int again = 0; again < 3; ++again) {
        EXPECT_EQ(std::memcmp(session.Forward(inputs)[0].raw(), got.raw(), got.bytes()), 0);
      }
    }
  }
}

TEST(CudaExperts, AllFormatsAndRows) {
  OORT_SKIP_WITHOUT_GPU();
  const std::vector<std::pair<WeightFormat, std::vector<int64_t>>> formats = {
      {WeightFormat::kBf16, {32}},     {WeightFormat::kF16, {32}},
      {WeightFormat::kInt8, {32, 64}}, {WeightFormat::kUint8, {32, 64}},
      {WeightFormat::kInt4, {32, 64}}, {WeightFormat::kUint4, {32, 64}}};
  for (const auto& [format, groups] : formats) {
    for (const int64_t group : groups) {
      for (const DType scale : {DType::kF16, DType::kF32}) {
        MixtureCase tested;
        tested.format = format;
        tested.group = group;
        tested.scale = scale;
        tested.hidden = 256;
        tested.intermediate = 192;
        ExpectMixed(tested, {1, 2, 7, 16, 40, 300}, 3e-5, 1e-3);
      }
    }
  }
}

TEST(CudaExperts, OddSizes) {
  OORT_SKIP_WITHOUT_GPU();
  for (const auto& [hidden, intermediate] :
       {std::pair<int64_t, int64_t>{20, 12}, {33, 1}, {100, 65}, {17, 130}}) {
    MixtureCase tested;
    tested.hidden = hidden;
    tested.intermediate = intermediate;
    tested.addend = true;
    ExpectMixed(tested, {1, 5, 70}, 3e-4, 3e-3);
  }
}

TEST(CudaExperts, BiasesLimitsAndScaledInputs) {
  OORT_SKIP_WITHOUT_GPU();
  for (int choice = 0; choice < 16; ++choice) {
    MixtureCase tested;
    tested.bias = (choice & 1) != 0;
    tested.limit = (choice & 2) != 0 ? 0.7 : 0;
    tested.scales_inputs = (choice & 4) != 0;
    tested.addend = (choice & 8) != 0;
    if (choice % 3 == 1) tested.activation = "gelu_tanh";
    ExpectMixed(tested, {1, 9}, 1e-4, 3e-3);
  }
}

TEST(CudaExperts, MostAreNotInUse) {
  OORT_SKIP_WITHOUT_GPU();
  MixtureCase tested;
  tested.experts = 128;
  tested.used = 8;
  tested.format = WeightFormat::kInt4;
  ExpectMixed(tested, {1, 3, 64, 260}, 3e-5, 1e-3);
}

TEST(CudaExperts, SomeAreOnAnotherRank) {
  OORT_SKIP_WITHOUT_GPU();
  MixtureCase tested;
  tested.experts = 4;
  tested.first = 2;
  tested.all = 12;
  ExpectMixed(tested, {1, 6, 280}, 3e-5, 1e-3);
}

TEST(CudaExperts, RowsAreAsAlone) {
  OORT_SKIP_WITHOUT_GPU();
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kInt4}) {
    MixtureCase tested;
    tested.format = format;
    tested.hidden = 640;
    tested.experts = 3;
    constexpr int64_t kRows = 120;
    Session session(tested.Load(Device::Cuda(0), Precision::kF32));
    const std::vector<Tensor> inputs = tested.Inputs(kRows);
    const Tensor together = session.Forward(inputs)[0];
    for (int64_t row = 0; row < kRows; ++row) {
      const Tensor alone =
          session.Forward({inputs[0].Rows(row, row + 1), inputs[1].Rows(row, row + 1)})[0];
      EXPECT_EQ(
          std::memcmp(alone.raw(), together.data<float>() + row * tested.hidden, alone.bytes()), 0)
          << row;
    }
  }
}

/// Steps of few tokens have kernels of one tile of rows, those of more have four.
TEST(CudaExperts, FewTokensHaveTheBitsOfMany) {
  OORT_SKIP_WITHOUT_GPU();
  for (const WeightFormat format :
       {WeightFormat::kBf16, WeightFormat::kF16, WeightFormat::kInt8, WeightFormat::kUint8,
        WeightFormat::kInt4, WeightFormat::kUint4}) {
    for (const int choice : {0, 1, 2, 3}) {
      SCOPED_TRACE(std::string(Name(format)) + " " + std::to_string(choice));
      MixtureCase tested;
      tested.format = format;
      tested.hidden = choice % 2 == 0 ? 608 : 64;
      tested.intermediate = choice % 2 == 0 ? 224 : 3328;
      tested.experts = choice == 2 ? 6 : 16;
      tested.all = 16;
      tested.first = choice == 2 ? 5 : 0;
      tested.used = 4;
      tested.addend = tested.bias = choice >= 2;
      tested.scales_inputs = choice == 3;
      for (const Precision precision : {Precision::kF32, Precision::kBF16}) {
        Session session(tested.Load(Device::Cuda(0), precision));
        constexpr int64_t kMany = 21;
        const std::vector<Tensor> inputs = tested.Inputs(kMany);
        const Tensor together = session.Forward(inputs)[0];
        for (const int64_t rows : {1, 3, 4}) {
          for (int64_t first = 0; first + rows <= kMany; first += rows) {
            std::vector<Tensor> some;
            for (const Tensor& input : inputs) some.push_back(input.Rows(first, first + rows));
            const Tensor few = session.Forward(some)[0];
            EXPECT_EQ(
                std::memcmp(few.raw(), together.data<float>() + first * tested.hidden, few.bytes()),
                0)
                << rows << " rows from " << first;
          }
        }
      }
    }
  }
}

TEST(CudaExperts, StayOnTheHostWhereTheyDoNotFit) {
  OORT_SKIP_WITHOUT_GPU();
  MixtureCase tested;
  tested.on_host = true;
  const auto graph = tested.Load(Device::Cuda(0), Precision::kF32);
  std::string fallback;
  for (const NodeReport& node : graph->Plan(tested.Inputs(2)).nodes) fallback += node.fallback;
  EXPECT_NE(fallback.find("do not fit on the GPU"), std::string::npos) << fallback;
}

}  // namespace
}  // namespace oort
