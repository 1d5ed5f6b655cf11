// SPDX-License-Identifier: MIT
// Attention over blocks of keys and values on the GPU against the CPU's.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "cuda/device.h"
#include "cuda/memory.h"
#include "decoder/graph_writer.h"
#include "layers/attention/paged/sequence_table.h"
#include "oort/kv_cache.h"
#include "oort/runtime_graph.h"
#include "oort/session.h"
#include "oort/testing.h"
#include "weights/quantize_weights.h"

namespace oort {
namespace {

/// A product whose weights are no numbers: it leaves them in the shared memory of all
/// multiprocessors, where they show who reads what it has not written.
class NanProduct {
 public:
  NanProduct() : session_(Build()), input_(DType::kF32, {1, kColumns}) {
    std::fill_n(input_.data<float>(), kColumns, 1.0f);
  }
  void Run() { session_.Forward({input_}); }

 private:
  static constexpr int64_t kColumns = 1024, kRows = 8192;
  static std::shared_ptr<const RuntimeGraph> Build() {
    GraphWriter writer;
    const int input = writer.AddInput("pnnx_input_0", DType::kF32, {Shape::kUnknown, kColumns});
    StoredMatrix stored = AllocateStored({WeightFormat::kBf16, 32, DType::kF16}, kRows, kColumns);
    std::memset(stored.data.raw(), 0xff, stored.data.bytes());
    Written linear{"oort.QuantizedLinear", "nan"};
    linear.AttachWeight(std::move(stored), "");
    linear.Set("in_features", Value(kColumns))
        .Set("out_features", Value(Value::List{Value(kRows)}))
        .Set("gated", Value(false));
    writer.Add({"pnnx.Output", "pnnx_output_0"}, {writer.AddOne(std::move(linear), {input})}, 0);
    LoadOptions options;
    options.device = Device::Cuda(0);
    options.disabled_passes = {"narrow-floats"};
    return RuntimeGraph::Build(writer.Take(), options);
  }

  Session session_;
  Tensor input_;
};

/// The nearest number that e4m3 has: three bits behind the point, 448 at most.
float RoundedToFp8(float v) {
  constexpr float kLargest = 448;
  if (v == 0) return v;
  const float step = std::ldexp(1.0f, std::max(std::ilogb(v), -6) - 3);
  return std::clamp(std::nearbyint(v / step) * step, -kLargest, kLargest);
}

template <typename Function>
void Change(Tensor& numbers, const Function& function) {
  float* const first = numbers.data<float>();
  std::transform(first, first + numbers.elements(), first, function);
}

struct GpuAttentionCase {
  int64_t heads = 4, kv_heads = 2, head_dim = 64, window = 0, pairs = 0;
  double softcap = 0;
  KvType type = KvType::kF16;
  bool interleaved = false, chunked = false;
  float value_unit = 1;
  float large_key = 0;      ///< what the third element of all keys has besides
  bool has_centre = false;  ///< the graph says so

  Graph Build() const {
    GraphWriter writer;
    const auto input = [&](int i, Shape shape) {
      return writer.AddInput("pnnx_input_" + std::to_string(i), DType::kF32, shape);
    };
    const int64_t any = Shape::kUnknown;
    std::vector<int> inputs = {input(0, {any, heads * head_dim}),
                               input(1, {any, kv_heads * head_dim}),
                               input(2, {any, kv_heads * head_dim})};
    if (pairs > 0) inputs.push_back(input(3, {any, 2, pairs}));
    Written attention{"oort.PagedAttention", "tested"};
    attention.Set("layer", Value(int64_t{0}))
        .Set("heads", Value(heads))
        .Set("kv_heads", Value(kv_heads))
        .Set("head_dim", Value(head_dim))
        .Set("window", Value(window))
        .Set("chunked", Value(chunked))
        .Set("interleaved", Value(interleaved))
        .Set("scale", Value(0.2))
        .Set("softcap", Value(softcap));
    if (has_centre) attention.Attach("key_centre", LargeElements(1));
    const int out = writer.AddOne(std::move(attention), inputs);
    writer.Add({"pnnx.Output", "pnnx_output_0"}, {out}, 0);
    return writer.Take();
  }

  /// Of keys (rows, kv_heads * head_dim); of one row without that dimension.
  Tensor LargeElements(int64_t rows) const {
    Tensor large(DType::kF32, {rows * kv_heads * head_dim});
    for (int64_t i = 0; i < large.elements(); ++i) {
      large.data<float>()[i] = i % head_dim == 3 ? large_key : 0;
    }
    return large;
  }

  std::vector<Tensor> Inputs(int64_t rows, uint64_t seed) const {
    using testing::RandomTensor;
    std::vector<Tensor> inputs = {RandomTensor(DType::kF32, {rows, heads * head_dim}, seed),
                                  RandomTensor(DType::kF32, {rows, kv_heads * head_dim}, seed + 1),
                                  RandomTensor(DType::kF32, {rows, kv_heads * head_dim}, seed + 2)};
    if (pairs > 0) inputs.push_back(RandomTensor(DType::kF32, {rows, 2, pairs}, seed + 3, -1, 1));
    Change(inputs[2], [&](float v) { return v * value_unit; });
    if (large_key != 0) {
      const Tensor large = LargeElements(rows);
      const float* next = large.data<float>();
      Change(inputs[1], [&](float v) { return v + *next++; });
    }
    return inputs;
  }
  /// The CPU has no fp8: it gets keys and values that are rounded already, which a rotation of keys
  /// would change.
  std::vector<Tensor> InputsOf(Device device, int64_t rows, uint64_t seed) const {
    std::vector<Tensor> inputs = Inputs(rows, seed);
    if (device.type != DeviceType::kCpu || type != KvType::kFp8) return inputs;
    for (int i : {1, 2}) {
      Change(inputs[static_cast<size_t>(i)], RoundedToFp8);
    }
    return inputs;
  }
  KvShape ShapeOn(Device device) const {
    const bool rounded = device.type == DeviceType::kCpu && type == KvType::kFp8;
    return {1, kv_heads, head_dim, rounded ? KvType::kF32 : type};
  }

  /// Results of one sequence in steps of these rows. Each step is done `again` so many times, which
  /// must not change a bit.
  std::vector<Tensor> Run(Device device, const std::vector<int64_t>& steps, int again = 0) const {
    LoadOptions options;
    options.device = device;
    Session session(RuntimeGraph::Build(Build(), options));
    const KvShape shape = ShapeOn(device);
    constexpr int64_t kBlocks = 40;
    const bool on_gpu = device.type == DeviceType::kCuda;
    KvCache cache(shape, kBlocks,
                  on_gpu ? cuda::AllocateDevice(KvCache::Bytes(shape, kBlocks), device.index)
                         : AllocateHost(KvCache::Bytes(shape, kBlocks)));
    std::unique_ptr<cuda::SequenceTable> table;
    std::optional<NanProduct> before;
    if (on_gpu) {
      table = std::make_unique<cuda::SequenceTable>(device.index, 640, kBlocks);
      before.emplace();
    }
    std::vector<int32_t> blocks(kBlocks);
    std::iota(blocks.begin(), blocks.end(), 0);
    std::swap(blocks[0], blocks[3]);  // blocks of a sequence lie anywhere
    std::vector<Tensor> results;
    int64_t position = 0;
    for (int64_t rows : steps) {
      const std::array<SequenceSlice, 1> slices = {{{0, rows, position, blocks}}};
      if (table) table->Set(slices);
      const SequenceBatch batch{slices, &cache, table.get()};
      RunOptions run;
      run.state = &batch;
      const std::vector<Tensor> inputs =
          InputsOf(device, rows, static_cast<uint64_t>(position + 5));
      if (before) before->Run();
      results.push_back(session.Forward(inputs, run)[0]);
      int others = 0;
      for (int i = 0; i < again; ++i) {
        if (table) table->Set(slices);
        const Tensor other = session.Forward(inputs, run)[0];
        others += std::memcmp(other.raw(), results.back().raw(), other.bytes()) != 0 ? 1 : 0;
      }
      EXPECT_EQ(others, 0) << rows << " rows";
      position += rows;
    }
    return results;
  }

  /// Results of several sequences: steps[s][i] rows of sequence i in step s.
  std::vector<Tensor> RunMany(Device device, const std::vector<std::vector<int64_t>>& steps) const {
    LoadOptions options;
    options.device = device;
    Session session(RuntimeGraph::Build(Build(), options));
    const KvShape shape = ShapeOn(device);
    constexpr int64_t kBlocksEach = 8;
    const int64_t sequences = static_cast<int64_t>(steps[0].size());
    const int64_t all = sequences * kBlocksEach;
    const size_t bytes = KvCache::Bytes(shape, all);
    const bool on_gpu = device.type == DeviceType::kCuda;
    KvCache cache(shape, all,
                  on_gpu ? cuda::AllocateDevice(bytes, device.index) : AllocateHost(bytes));
    std::unique_ptr<cuda::SequenceTable> table;
    if (on_gpu) {
      table = std::make_unique<cuda::SequenceTable>(device.index, all * KvCache::kBlockTokens, all);
    }
    std::vector<std::vector<int32_t>> blocks(static_cast<size_t>(sequences));
    for (int64_t i = 0; i < all; ++i) {
      blocks[static_cast<size_t>(i % sequences)].push_back(static_cast<int32_t>(i));
    }
    std::vector<int64_t> lengths(static_cast<size_t>(sequences), 0);
    std::vector<Tensor> results;
    for (const std::vector<int64_t>& step : steps) {
      std::vector<SequenceSlice> slices;
      int64_t rows = 0;
      for (size_t i = 0; i < step.size(); ++i) {
        slices.push_back({rows, step[i], lengths[i], blocks[i]});
        rows += step[i];
        lengths[i] += step[i];
      }
      if (table) table->Set(slices);
      const SequenceBatch batch{slices, &cache, table.get()};
      RunOptions run;
      run.state = &batch;
      const uint64_t seed = static_cast<uint64_t>(rows + lengths[0]);
      results.push_back(session.Forward(InputsOf(device, rows, seed), run)[0]);
    }
    return results;
  }

  void ExpectSame(const std::vector<int64_t>& steps, double tolerance) const {
    SCOPED_TRACE("head_dim " + std::to_string(head_dim) + " window " + std::to_string(window));
    const std::vector<Tensor> want = Run(Device::Cpu(), steps);
    const std::vector<Tensor> got = Run(Device::Cuda(0), steps);
    for (size_t i = 0; i < want.size(); ++i) {
      SCOPED_TRACE(i);
      testing::ExpectNear(got[i], want[i], {tolerance, tolerance});
    }
  }
};

class CudaPagedAttention : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    if (cuda::Devices(&reason).empty()) GTEST_SKIP() << reason;
  }
};

/// Steps of many rows, of fewer than tensor cores get, and of one.
const std::vector<int64_t> kAttentionSteps = {100, 70, 17, 5, 1, 1, 1, 64, 1, 200, 1};

TEST_F(CudaPagedAttention, PromptsOnTensorCores) {
  for (int64_t head_dim : {64, 128}) {
    for (int64_t window : {0, 30}) {
      GpuAttentionCase tested;
      tested.head_dim = head_dim;
      tested.window = window;
      tested.pairs = head_dim / 2;
      tested.softcap = window == 0 ? 0 : 20;
      tested.ExpectSame(kAttentionSteps, 1e-2);  // queries and weights are rounded to f16
    }
  }
}

/// Chunks that end within tiles of keys and of queries: on tensor cores, and one by one.
TEST_F(CudaPagedAttention, Chunks) {
  for (int64_t head_dim : {40, 64, 128}) {
    for (int64_t window : {1, 30, 64, 150}) {
      GpuAttentionCase tested;
      tested.head_dim = head_dim;
      tested.window = window;
      tested.chunked = true;
      tested.ExpectSame(kAttentionSteps, 1e-2);
      tested.type = KvType::kF32;
      tested.ExpectSame(kAttentionSteps, 1e-4);
    }
  }
}

TEST_F(CudaPagedAttention, OtherHeadsAndTypes) {
  for (int64_t head_dim : {8, 32, 80, 256}) {
    GpuAttentionCase tested;
    tested.head_dim = head_dim;
    tested.heads = 7;
    tested.kv_heads = 1;
    tested.type = KvType::kF32;
    tested.ExpectSame(kAttentionSteps, 1e-4);
  }
}

/// Tokens one by one behind a long prompt.
TEST_F(CudaPagedAttention, NewestTokensOfLongSequences) {
  for (int64_t head_dim : {40, 64, 128, 256}) {
    for (int64_t window : {0, 100, 333}) {
      GpuAttentionCase tested;
      tested.head_dim = head_dim;
      tested.window = window;
      tested.heads = 4;
      tested.kv_heads = window == 100 ? 4 : 2;
      tested.pairs = head_dim / 2;
      tested.interleaved = window == 333;
      tested.type = KvType::kF32;
      tested.ExpectSame({15, 1, 1, 90, 1, 150, 1, 200, 1, 1, 1, 60, 1}, 1e-4);
    }
  }
}

/// A scale for each token and head, prompts and tokens one by one; heads that fill no warp, too.
TEST_F(CudaPagedAttention, KeysAndValuesOfBytes) {
  for (int64_t head_dim : {8, 40, 64, 128, 256}) {
    GpuAttentionCase tested;
    tested.head_dim = head_dim;
    tested.window = head_dim == 40 ? 50 : 0;
    tested.pairs = head_dim / 2;
    tested.type = KvType::kInt8;
    tested.ExpectSame(kAttentionSteps, 1e-2);
  }
}

/// An element that is large in all keys costs bytes less where it is spread, and nothing where the
/// model says it: against a cache of f32 on the CPU.
TEST_F(CudaPagedAttention, LargeElementsOfKeysOfBytes) {
  for (int64_t head_dim : {64, 80, 128, 256}) {
    for (const bool has_centre : {false, true}) {
      SCOPED_TRACE(std::to_string(head_dim) + (has_centre ? " with a centre" : ""));
      GpuAttentionCase tested;
      tested.head_dim = head_dim;
      tested.large_key = 100;
      tested.type = KvType::kF32;
      const std::vector<Tensor> want = tested.Run(Device::Cpu(), kAttentionSteps);
      tested.type = KvType::kInt8;
      tested.has_centre = has_centre;
      const std::vector<Tensor> got = tested.Run(Device::Cuda(0), kAttentionSteps);
      double sum = 0, count = 0;
      for (size_t i = 0; i < want.size(); ++i) {
        const std::span<const float> a = got[i].span<float>(), b = want[i].span<float>();
        for (size_t at = 0; at < a.size(); ++at) sum += (a[at] - b[at]) * (a[at] - b[at]);
        count += static_cast<double>(a.size());
      }
      // Heads of 80 elements are spread by sixteens.
      const double most = has_centre ? 0.012 : head_dim == 80 ? 0.1 : 0.05;
      EXPECT_LT(std::sqrt(sum / count), most);
      // Tensor cores round queries, which large keys make more of than the CPU's bytes differ by.
      if (has_centre) tested.ExpectSame(kAttentionSteps, 1e-2);
    }
  }
}

/// Eight bits without a scale: those of the nearest number, and of the largest for all above.
TEST_F(CudaPagedAttention, KeysAndValuesOfFp8) {
  for (int64_t head_dim : {8, 40, 64, 128, 256}) {
    for (float unit : {1e-3f, 1.0f, 600.0f}) {
      GpuAttentionCase tested;
      tested.head_dim = head_dim;
      tested.window = head_dim == 40 ? 50 : 0;
      tested.type = KvType::kFp8;
      tested.value_unit = unit;
      SCOPED_TRACE(unit);
      // Of large values that cancel out, rounding leaves more.
      tested.ExpectSame({15, 1, 1, 7, 1, 1, 12, 1}, unit > 1 ? 1e-3 : 1e-4);
      if (unit == 1) tested.ExpectSame(kAttentionSteps, 1e-2);  // some on tensor cores
    }
  }
}

/// Turned keys are rounded, too: written at once and apart.
TEST_F(CudaPagedAttention, TurnedKeysOfFp8) {
  GpuAttentionCase tested;
  for (const int64_t pairs : {12, 32}) {  // the first are no eights
    tested.pairs = pairs;
    tested.type = KvType::kF16;
    const std::vector<Tensor> want = tested.Run(Device::Cuda(0), kAttentionSteps);
    tested.type = KvType::kFp8;
    const std::vector<Tensor> got = tested.Run(Device::Cuda(0), kAttentionSteps);
    for (size_t i = 0; i < want.size(); ++i) testing::ExpectNear(got[i], want[i], {0.1, 0.1});
  }
}

/// Pairs that do not come in eights, or of neighbours in fours.
TEST_F(CudaPagedAttention, OddPairs) {
  for (const bool interleaved : {false, true}) {
    GpuAttentionCase tested;
    tested.interleaved = interleaved;
    tested.pairs = interleaved ? 30 : 12;
    tested.type = KvType::kF32;
    tested.ExpectSame({40, 1, 1, 5, 1}, 1e-4);
  }
}

/// Prompts of several sequences in one step, answers of all of them, and both together; with keys
/// of their own, and shared by so many heads that they take two tiles.
TEST_F(CudaPagedAttention, ManySequencesOfDifferentLengths) {
  constexpr int64_t kSequences = 40;
  std::vector<int64_t> prompts, answers(kSequences, 1), both(kSequences, 1);
  for (int64_t i = 0; i < kSequences; ++i) prompts.push_back(1 + i * 37 % 70);
  for (size_t i = 30; i < kSequences; ++i) both[i] = 20;
  for (int64_t group : {1, 2, 7, 17}) {
    for (const KvType type : {KvType::kF16, KvType::kF32, KvType::kInt8, KvType::kFp8}) {
      GpuAttentionCase tested;
      tested.kv_heads = 8;
      tested.heads = 8 * group;
      tested.head_dim = group == 7 ? 128 : 64;
      tested.pairs = type == KvType::kFp8 ? 0 : tested.head_dim / 2;
      tested.window = group == 2 || group == 17 ? 33 : 0;
      tested.chunked = group == 17;
      tested.type = type;
      SCOPED_TRACE("group " + std::to_string(group) + " type " + std::string(Name(type)));
      const std::vector<std::vector<int64_t>> steps = {prompts, answers, both, answers};
      const std::vector<Tensor> want = tested.RunMany(Device::Cpu(), steps);
      const std::vector<Tensor> got = tested.RunMany(Device::Cuda(0), steps);
      const double tolerance = type == KvType::kF32 ? 1e-4 : 1e-2;
      for (size_t i = 0; i < want.size(); ++i) {
        SCOPED_TRACE(i);
        testing::ExpectNear(got[i], want[i], {tolerance, tolerance});
      }
    }
  }
}

// Blocks of a cluster wait for each other, and nothing else tells how long.
TEST_F(CudaPagedAttention, TheSameEachTime) {
  for (int64_t kv_heads : {32, 8}) {
    GpuAttentionCase tested;
    tested.heads = 32;
    tested.kv_heads = kv_heads;
    tested.head_dim = 128;
    tested.pairs = 64;
    tested.Run(Device::Cuda(0), {100, 1, 70, 5, 1}, 500);
  }
}

}  // namespace
}  // namespace oort
