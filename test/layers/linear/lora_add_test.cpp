// SPDX-License-Identifier: MIT
// oort.LoraAdd against sums in f64, rows of several adapters and of none side by side.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "kit/errors.h"
#include "kit/one_operator_graph.h"
#include "oort/kv_cache.h"
#include "oort/oort.h"
#include "oort/testing.h"

namespace oort {
namespace {

constexpr int64_t kLoraInputs = 37, kLoraOutputs = 291;
const std::vector<int64_t> kLoraRanks = {3, 0, 17};

struct LoraCase {
  Tensor down = testing::RandomTensor(DType::kF32, {20, kLoraInputs}, 1);
  Tensor up = testing::RandomTensor(DType::kF32, {20, kLoraOutputs}, 2);

  Graph Build(const std::string& ranks = "(3,0,17)") const {
    Operator op;
    op.type = "oort.LoraAdd";
    op.params["ranks"] = Parameter(ranks);
    op.attributes["down"] = down;
    op.attributes["up"] = up;
    return testing::GraphOf(std::move(op), {"base", "input"});
  }
};

Tensor RunLora(Session& session, const Tensor& base, const Tensor& input,
               const std::vector<SequenceSlice>& slices) {
  const SequenceBatch batch(slices, nullptr);
  RunOptions options;
  options.state = &batch;
  return session.Forward({base, input}, options)[0];
}

TEST(LoraAdd, AddsToEachRowWhatItsAdapterSays) {
  const LoraCase c;
  const Tensor base = testing::RandomTensor(DType::kF32, {7, kLoraOutputs}, 3);
  const Tensor input = testing::RandomTensor(DType::kF32, {7, kLoraInputs}, 4);
  const std::vector<int32_t> adapters = {2, 2, -1, 0, 1, 2, 0};  // of each row
  const std::vector<int64_t> firsts = {0, 3, 3};                 // rows of down and up
  std::vector<SequenceSlice> slices = {{0, 2, 0, {}, 0, 2}};
  for (int64_t row = 2; row < 7; ++row) {
    slices.push_back({row, 1, 0, {}, 0, adapters[static_cast<size_t>(row)]});
  }
  for (const Isa isa : SupportedIsas()) {
    const auto graph = RuntimeGraph::Build(c.Build(), {.isa = isa});
    Session session(graph, {.threads = 3});
    const Tensor out = RunLora(session, base, input, slices);
    for (int64_t row = 0; row < 7; ++row) {
      const int32_t adapter = adapters[static_cast<size_t>(row)];
      for (int64_t j = 0; j < kLoraOutputs; ++j) {
        double want = base.data<float>()[row * kLoraOutputs + j];
        const int64_t rank = adapter < 0 ? 0 : kLoraRanks[static_cast<size_t>(adapter)];
        for (int64_t r = 0; r < rank; ++r) {
          const int64_t at = firsts[static_cast<size_t>(adapter)] + r;
          double sum = 0;
          for (int64_t i = 0; i < kLoraInputs; ++i) {
            sum += double{c.down.data<float>()[at * kLoraInputs + i]} *
                   input.data<float>()[row * kLoraInputs + i];
          }
          want += sum * c.up.data<float>()[at * kLoraOutputs + j];
        }
        ASSERT_NEAR(out.data<float>()[row * kLoraOutputs + j], want, 1e-4) << row << " " << j;
      }
    }
    // A row alone is the same to the last bit.
    const auto row_of = [](const Tensor& from, int64_t row) {
      Tensor one(DType::kF32, {1, from.dim(1)});
      std::memcpy(one.raw(), from.data<float>() + row * from.dim(1), one.bytes());
      return one;
    };
    for (const int64_t row : {0, 3, 5}) {
      Session one(graph, {.threads = 1});
      const Tensor alone = RunLora(one, row_of(base, row), row_of(input, row),
                                   {{0, 1, 0, {}, 0, adapters[static_cast<size_t>(row)]}});
      EXPECT_EQ(0, std::memcmp(alone.raw(), out.data<float>() + row * kLoraOutputs, alone.bytes()));
    }
  }
}

TEST(LoraAdd, RefusesWhatDoesNotFit) {
  const LoraCase c;
  for (const char* ranks : {"(3,0,16)", "(-3,6,17)", "(9223372036854775807,9223372036854775807)"}) {
    testing::ExpectThrows([&] { RuntimeGraph::Build(c.Build(ranks)); }, ErrorCode::kInvalidModel,
                          "as many rows as the ranks");
  }
  Session session(RuntimeGraph::Build(c.Build()));
  const Tensor base(DType::kF32, {1, kLoraOutputs}), input(DType::kF32, {1, kLoraInputs});
  testing::ExpectThrows(
      [&] {
        RunLora(session, base, input, {{0, 1, 0, {}, 0, 3}});
      },
      ErrorCode::kInvalidArgument, "an adapter below 3");
  testing::ExpectThrows(
      [&] {
        RunLora(session, base, input, {{0, 2, 0, {}, 0, 0}});
      },
      ErrorCode::kInvalidArgument, "rows below 1");
  testing::ExpectThrows(
      [&] {
        session.Forward({base, base});
      },
      ErrorCode::kInvalidArgument, "(tokens, 37)");
}

}  // namespace
}  // namespace oort
