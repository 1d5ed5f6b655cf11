// SPDX-License-Identifier: MIT
#include "oort/profile.h"

#include "core/piece_observer.h"
#include "oort/testing.h"
#include "runtime/test_layers.h"

namespace oort {
namespace {

constexpr const char* kProfiledChain =
    "pnnx.Input pnnx_input_0 0 1 x\n"
    "test.add_one a 1 1 x 1\n"
    "test.flat flat 1 1 1 2\n"
    "test.add_one b 1 1 2 3\n"
    "pnnx.Output pnnx_output_0 1 0 3\n";

/// test.pieces: x + 1 in two pieces of a parallel loop, each of which starts a loop of its own.
class Pieces final : public Layer {
 public:
  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(DType::kF32, args.shape(0))};
  }
  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const float* x = args.tensor(0).data<float>();
    float* y = outputs[0].AsTensor().data<float>();
    const int64_t count = args.tensor(0).elements();
    context.ParallelFor(2, 1, [&](int64_t begin, int64_t end) {
      context.ParallelFor(1, 1, [&](int64_t, int64_t) {
        for (int64_t i = count * begin / 2; i < count * end / 2; ++i) y[i] = x[i] + 1;
      });
    });
  }
};

std::vector<Tensor> ProfiledForward(Session& session, Profile& profile, const Tensor& x) {
  RunOptions options;
  options.profile = &profile;
  return session.Forward({x}, options);
}

TEST(Profile, TellsEveryStepInOrder) {
  Session session(BuildText(kProfiledChain));
  Profile profile;
  const auto y = ProfiledForward(session, profile, Tensor::From<float>({1, 2}, {1, 2}));
  EXPECT_EQ(Floats(y[0]), (std::vector<float>{3, 4}));
  ASSERT_EQ(profile.steps.size(), 3u);
  double last = 0;
  for (int i = 0; i < 3; ++i) {
    const Profile::Slice& step = profile.steps[static_cast<size_t>(i)];
    EXPECT_EQ(step.node, i);
    EXPECT_GE(step.begin, last);
    EXPECT_GE(step.end, step.begin);
    last = step.end;
  }
  EXPECT_GE(profile.seconds, last);
  ASSERT_EQ(profile.work.size(), 3u);
  EXPECT_EQ(profile.work[0].flops, 2);
  EXPECT_EQ(profile.work[1].bytes, 0) << "a view reads and writes nothing";
  EXPECT_EQ(profile.work[2].bytes, 16);
}

TEST(Profile, EachForwardReplacesIt) {
  Session session(BuildText(kProfiledChain));
  Profile profile;
  ProfiledForward(session, profile, Tensor::Zeros(DType::kF32, {8}));
  ProfiledForward(session, profile, Tensor::Zeros(DType::kF32, {3}));
  EXPECT_EQ(profile.steps.size(), 3u);
  EXPECT_EQ(profile.work[0].flops, 3);
  session.Forward({Tensor::Zeros(DType::kF32, {5})});
  EXPECT_EQ(profile.work[0].flops, 3) << "a Forward that was not asked to wrote a profile";
}

TEST(Profile, GoesWithAnObserver) {
  Session session(BuildText(kProfiledChain));
  Profile profile;
  int seen = 0;
  RunOptions options;
  options.profile = &profile;
  options.observer = [&](const NodeEvent&) { ++seen; };
  session.Forward({Tensor::Zeros(DType::kF32, {2})}, options);
  EXPECT_EQ(seen, 3);
  EXPECT_EQ(profile.steps.size(), 3u);
}

TEST(Profile, CountsTheWorkOfSizesThatDependOnData) {
  Session session(
      BuildText("pnnx.Input pnnx_input_0 0 1 0\n"
                "test.positive some 1 1 0 1\n"
                "test.add_one next 1 1 1 2\n"
                "pnnx.Output pnnx_output_0 1 0 2\n"));
  Profile profile;
  ProfiledForward(session, profile, Tensor::From<float>({1, -1, 2, -2}, {4}));
  EXPECT_EQ(profile.work[1].flops, 2);
  ProfiledForward(session, profile, Tensor::From<float>({1, 1, 2, -2}, {4}));
  EXPECT_EQ(profile.work[1].flops, 3);
}

TEST(Profile, TellsWhatEachThreadDid) {
  LayerRegistry registry = TestRegistry();
  OperatorSchema schema({"test.pieces"}, "for tests");
  schema.Tensor("input", kF32Only);
  registry.Add(schema, [](const LayerInit&) { return std::make_unique<Pieces>(); });
  LoadOptions options;
  options.registry = &registry;
  const auto graph = RuntimeGraph::Build(GraphFromText("pnnx.Input pnnx_input_0 0 1 0\n"
                                                       "test.add_one a 1 1 0 1\n"
                                                       "test.pieces p 1 1 1 2\n"
                                                       "pnnx.Output pnnx_output_0 1 0 2\n"),
                                         options);
  for (const int threads : {1, 2}) {
    Session session(graph, {.threads = threads});
    Profile profile;
    const auto y = ProfiledForward(session, profile, Tensor::From<float>({1, 2}, {2}));
    EXPECT_EQ(Floats(y[0]), (std::vector<float>{3, 4}));
    ASSERT_GE(profile.pieces.size(), 1u);
    EXPECT_LE(profile.pieces.size(), static_cast<size_t>(threads)) << "inner loops were counted";
    for (const Profile::Slice& piece : profile.pieces) {
      EXPECT_EQ(piece.node, 1);
      EXPECT_LT(piece.thread, threads);
      EXPECT_GE(piece.begin, profile.steps[1].begin);
      EXPECT_LE(piece.end, profile.steps[1].end);
    }
  }
}

TEST(Profile, AFailedForwardLeavesNothingBehind) {
  bool fail = true;
  Session session(BuildText(kProfiledChain, [&](const float*, const float*) {
    if (fail) throw Error(ErrorCode::kInternal, "on purpose");
  }));
  const Tensor x = Tensor::Zeros(DType::kF32, {2});
  {
    Profile profile;
    EXPECT_THROW(ProfiledForward(session, profile, x), Error);
    EXPECT_TRUE(profile.steps.empty());
  }
  EXPECT_EQ(SetPieceObserver(nullptr), nullptr) << "loops still report to a profile that is gone";
  fail = false;
  Profile profile;
  ProfiledForward(session, profile, x);
  EXPECT_EQ(profile.steps.size(), 3u);
}

TEST(Plan, ReportsTheBlocksOfTheArena) {
  const auto graph = BuildText(
      "pnnx.Input pnnx_input_0 0 1 0\n"
      "test.add_one a 1 1 0 1\n"
      "test.sum2 s 2 2 1 0 2 3\n"
      "test.sum2 t 2 2 2 3 4 5\n"
      "pnnx.Output pnnx_output_0 1 0 4\n");
  const PlanReport report = graph->Plan({Tensor::Meta(DType::kF32, {64})});
  ASSERT_EQ(report.blocks.size(), 4u);  // 1, 2, 3 and 5; 4 is the caller's
  for (size_t i = 0; i < report.blocks.size(); ++i) {
    const MemoryBlock& a = report.blocks[i];
    EXPECT_EQ(a.bytes, 256u);
    EXPECT_LE(a.offset + a.bytes, report.memory.arena);
    EXPECT_LE(a.first, a.last);
    EXPECT_FALSE(a.scratch);
    for (size_t k = 0; k < i; ++k) {
      const MemoryBlock& b = report.blocks[k];
      const bool together = a.first <= b.last && b.first <= a.last;
      const bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      EXPECT_FALSE(together && overlap) << a.name << " and " << b.name;
    }
  }
  const auto one = std::find_if(report.blocks.begin(), report.blocks.end(),
                                [](const MemoryBlock& block) { return block.name == "1"; });
  ASSERT_NE(one, report.blocks.end());
  EXPECT_EQ(one->first, 0);
  EXPECT_EQ(one->last, 1);
}

}  // namespace
}  // namespace oort
