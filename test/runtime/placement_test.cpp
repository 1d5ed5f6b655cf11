// SPDX-License-Identifier: MIT
// Placement and execution on a device, with one whose memory is the host's.
#include <map>

#include "graph/decomposition.h"
#include "kit/errors.h"
#include "oort/profile.h"
#include "oort/session.h"
#include "oort/testing.h"
#include "runtime/fake_device.h"

namespace oort {
namespace {

/// x + 1 by a layer that has weights, and remembers how many bytes it may prefetch.
class AddOneWithWeights final : public Layer {
 public:
  using Seen = std::map<std::string, size_t>;
  AddOneWithWeights(std::string name, size_t bytes, Seen& seen)
      : name_(std::move(name)), weights_(bytes), seen_(seen) {}
  std::span<const std::byte> WeightBytes() const override { return weights_; }
  std::vector<Value> Infer(const Args& args) const override { return layer_.Infer(args); }
  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    seen_[name_] = context.next_weights().size();
    layer_.Forward(context, args, outputs);
  }

 private:
  std::string name_;
  std::vector<std::byte> weights_;
  Seen& seen_;
  AddOne layer_;
};

constexpr const char* kDeviceChain =
    "pnnx.Input pnnx_input_0 0 1 x\n"
    "test.add_one a 1 1 x 1\n"
    "test.add_one b 1 1 1 2\n"
    "test.flat c 1 1 2 3\n"
    "pnnx.Output pnnx_output_0 1 0 3\n";

/// A kernel cannot prefetch what is in the memory of another device.
TEST_F(PlacementTest, LayersAreToldTheNextWeightsOfTheirDevice) {
  AddOneWithWeights::Seen seen;
  for (const char* type : {"test.here", "test.there"}) {
    OperatorSchema schema({type}, "for tests");
    schema.Tensor("input", kF32Only);
    const auto create = [&](const LayerInit& init) {
      const std::string& name = init.op().name;
      return std::make_unique<AddOneWithWeights>(name, static_cast<size_t>(name.back()), seen);
    };
    registry_.Add(std::move(schema), create);
    if (type == std::string("test.there")) registry_.AddDevice({type}, DeviceType::kCuda, create);
  }
  const auto graph = Build(
      "pnnx.Input pnnx_input_0 0 1 x\n"
      "test.there a 1 1 x 1\n"
      "test.add_one between 1 1 1 2\n"
      "test.there b 1 1 2 3\n"
      "test.here c 1 1 3 4\n"
      "test.here d 1 1 4 5\n"
      "test.there e 1 1 5 6\n"
      "pnnx.Output pnnx_output_0 1 0 6\n");
  Session session(graph);
  session.Forward({Tensor::From<float>({1, 2, 3}, {3})});
  const AddOneWithWeights::Seen want = {{"a", 'b'}, {"b", 0}, {"c", 'd'}, {"d", 0}, {"e", 0}};
  EXPECT_EQ(seen, want);
}

TEST_F(PlacementTest, CopiesAtTheBordersAlone) {
  const auto graph = Build(kDeviceChain);
  EXPECT_EQ(PlannedTypes(*graph),
            "oort.ToDevice* test.add_one* test.add_one* test.flat* oort.ToHost");
  EXPECT_EQ(graph->DeviceOf("a"), Device::Cuda(0));
  EXPECT_EQ(graph->DeviceOf("there is none"), Device::Cpu());
  EXPECT_EQ(graph->outputs()[0].device, Device::Cuda(0));
  Session session(graph);
  EXPECT_EQ(Floats(session.Forward({Tensor::From<float>({1, 2, 3}, {3})})[0]),
            (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(log_.copies_to, 1);
  EXPECT_EQ(log_.copies_from, 1);
  EXPECT_EQ(log_.waits, 1) << "waited for more than the end";
}

TEST_F(PlacementTest, TheGraphShowsTheCopies) {
  const auto built = Build(kDeviceChain);
  const Graph& graph = built->graph();
  EXPECT_TRUE(graph.Check().empty());
  const int copy = graph.FindOperator("to_device_x");
  ASSERT_GE(copy, 0);
  EXPECT_EQ(graph.operators[static_cast<size_t>(copy)].type, "oort.ToDevice");
  EXPECT_GE(graph.FindOperator("to_host_3"), 0);
}

TEST_F(PlacementTest, WhatTheDeviceLacksRunsOnTheHost) {
  const auto graph = Build(
      "pnnx.Input pnnx_input_0 0 1 x\n"
      "test.add_one a 1 1 x 1\n"
      "test.positive b 1 1 1 2\n"
      "test.add_one c 1 1 2 3\n"
      "test.add_one d 1 1 3 4\n"
      "pnnx.Output pnnx_output_0 1 0 4\n");
  EXPECT_EQ(PlannedTypes(*graph),
            "oort.ToDevice* test.add_one* oort.ToHost test.positive oort.ToDevice* test.add_one* "
            "test.add_one* oort.ToHost");
  EXPECT_EQ(graph->DeviceOf("b"), Device::Cpu());
  for (const NodeReport& node : graph->Plan({Tensor::Meta(DType::kF32, {3})}).nodes) {
    EXPECT_EQ(node.fallback.empty(), node.type != "test.positive") << node.fallback;
  }
  Session session(graph);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Floats(session.Forward({Tensor::From<float>({-5, 2, 3}, {3})})[0]),
              (std::vector<float>{5, 6}));
    EXPECT_EQ(Floats(session.Forward({Tensor::From<float>({7}, {1})})[0]),
              (std::vector<float>{10}));
  }
}

TEST_F(PlacementTest, WhoReadsShapesAloneNeedsNoCopy) {
  const auto graph = Build(
      "pnnx.Input pnnx_input_0 0 1 x\n"
      "test.add_one a 1 1 x 1\n"
      "Tensor.size s 1 1 1 2 dim=0\n"
      "test.ones o 1 1 2 3 $count=2\n"
      "test.sum2 b 2 2 1 3 4 5\n"
      "pnnx.Output pnnx_output_0 1 0 4\n");
  EXPECT_EQ(PlannedTypes(*graph),
            "oort.ToDevice* test.add_one* Tensor.size test.ones oort.ToDevice* test.sum2* "
            "oort.ToHost");
  EXPECT_EQ(Floats(Session(graph).Forward({Tensor::From<float>({1, 2}, {2})})[0]),
            (std::vector<float>{3, 4}));
}

TEST_F(PlacementTest, ALayerThatRefusesFallsBack) {
  registry_.AddDevice({"test.sum2"}, DeviceType::kCuda,
                      [](const LayerInit&) -> std::unique_ptr<Layer> {
                        throw Error(ErrorCode::kUnsupported, "only likes odd numbers");
                      });
  const auto graph = Build(
      "pnnx.Input pnnx_input_0 0 1 x\n"
      "test.add_one a 1 1 x 1\n"
      "test.sum2 b 2 2 x 1 2 3\n"
      "pnnx.Output pnnx_output_0 1 0 2\n"
      "pnnx.Output pnnx_output_1 1 0 3\n");
  EXPECT_EQ(PlannedTypes(*graph), "oort.ToDevice* test.add_one* oort.ToHost test.sum2");
  const std::vector<Tensor> results = Session(graph).Forward({Tensor::From<float>({1, 2}, {2})});
  EXPECT_EQ(Floats(results[0]), (std::vector<float>{3, 5}));
  EXPECT_EQ(Floats(results[1]), (std::vector<float>{-1, -1}));
  const PlanReport plan = graph->Plan({Tensor::Meta(DType::kF32, {2})});
  EXPECT_NE(plan.nodes.back().fallback.find("odd numbers"), std::string::npos);
  registry_.AddDevice({"test.sum2"}, DeviceType::kCuda,
                      [](const LayerInit&) -> std::unique_ptr<Layer> {
                        throw Error(ErrorCode::kInvalidModel, "broken");
                      });
  EXPECT_THROW(Build("pnnx.Input pnnx_input_0 0 1 x\n"
                     "test.sum2 b 2 2 x x 2 3\n"
                     "pnnx.Output pnnx_output_0 1 0 2\n"),
               Error);
}

/// An operator that is test.add_one and then another one.
void AddDecomposed(LayerRegistry& registry, const std::string& type, const std::string& second) {
  registry.Add(OperatorSchema({type}, "").Tensor("x", kAllDTypes),
               [](const LayerInit&) { return std::make_unique<AddOne>(); });
  registry.SetDecomposition({type}, [second](const Decomposer& call, const Args& args) {
    return std::vector<Value>{call(second, {{"", call("test.add_one", {{"", args[0]}})}})};
  });
}

TEST_F(PlacementTest, PartsOfAnOperatorRunOnTheDevice) {
  AddDecomposed(registry_, "test.add_two", "test.add_one");
  AddDecomposed(registry_, "test.add_one_positive", "test.positive");
  LoadOptions options;
  options.registry = &registry_;
  options.device = Device::Cuda(0);
  const auto graph = RuntimeGraph::Build(GraphFromText("pnnx.Input pnnx_input_0 0 1 x\n"
                                                       "test.add_two a 1 1 x y\n"
                                                       "pnnx.Output pnnx_output_0 1 0 y\n"),
                                         options);
  EXPECT_EQ(PlannedTypes(*graph), "oort.ToDevice* test.add_one* test.add_one* oort.ToHost");
  Session session(graph);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Floats(session.Forward({Tensor::From<float>({1, 2, 3}, {3})})[0]),
              (std::vector<float>{3, 4, 5}));
  }
  EXPECT_EQ(log_.recordings, 1);
  EXPECT_EQ(log_.launches, 2);
  // The device lacks a part: the operator stays whole, so that nothing is copied in its middle.
  const auto mixed = RuntimeGraph::Build(GraphFromText("pnnx.Input pnnx_input_0 0 1 x\n"
                                                       "test.add_one_positive a 1 1 x y\n"
                                                       "pnnx.Output pnnx_output_0 1 0 y\n"),
                                         options);
  EXPECT_EQ(PlannedTypes(*mixed), "test.add_one_positive");
}

TEST_F(PlacementTest, ALayerForEitherDeviceServesWhereItIsAdded) {
  Declare("test.either", {.either_device = true});
  EXPECT_FALSE(registry_.Has("test.either", DeviceType::kCuda));
  EXPECT_EQ(PlannedAlone("test.either"), "test.either");
  registry_.AddDevice({"test.either"}, DeviceType::kCuda);
  EXPECT_TRUE(registry_.Has("test.either", DeviceType::kCuda));
  EXPECT_EQ(PlannedAlone("test.either"), "oort.ToDevice* test.either* oort.ToHost");
}

TEST_F(PlacementTest, ALayerOfTheHostServesNoDeviceEvenIfAdded) {
  Declare("test.host", {});
  registry_.AddDevice({"test.host"}, DeviceType::kCuda);
  const auto graph = Build(
      "pnnx.Input pnnx_input_0 0 1 x\n"
      "test.host a 1 1 x 1\n"
      "pnnx.Output pnnx_output_0 1 0 1\n");
  const PlanReport plan = graph->Plan({Tensor::Meta(DType::kF32, {3})});
  EXPECT_EQ(plan.nodes.back().fallback, "has no layer for cuda:0");
}

TEST_F(PlacementTest, RecordingsStopAtWhatCannotBeRecorded) {
  Declare("test.allocates", {.either_device = true, .unrecordable = true});
  registry_.AddDevice({"test.allocates"}, DeviceType::kCuda);
  Session session(
      Build("pnnx.Input pnnx_input_0 0 1 x\n"
            "test.add_one a 1 1 x 1\n"
            "test.add_one b 1 1 1 2\n"
            "test.allocates c 1 1 2 3\n"
            "test.add_one d 1 1 3 4\n"
            "test.add_one e 1 1 4 5\n"
            "pnnx.Output pnnx_output_0 1 0 5\n"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Floats(session.Forward({Tensor::From<float>({1, 2}, {2})})[0]),
              (std::vector<float>{6, 7}));
  }
  EXPECT_EQ(log_.recordings, 2);
  EXPECT_EQ(log_.launches, 4);
}

TEST_F(PlacementTest, TheSecondRunIsRecordedAndLaterOnesReplayed) {
  Session session(Build(kDeviceChain));
  for (int i = 0; i < 5; ++i) {
    const float value = static_cast<float>(i);
    const Tensor x = Tensor::From<float>({value, -value}, {2});
    EXPECT_EQ(Floats(session.Forward({x})[0]), (std::vector<float>{value + 2, 2 - value}));
    EXPECT_EQ(log_.recordings, i >= 1 ? 1 : 0);
    EXPECT_EQ(log_.launches, i);
  }
  // A larger arena moves everything; a smaller input has a plan of its own.
  EXPECT_EQ(Floats(session.Forward({Tensor::Zeros(DType::kF32, {1000})})[0])[999], 2);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Floats(session.Forward({Tensor::From<float>({1, 2}, {2})})[0]),
              (std::vector<float>{3, 4}));
  }
  EXPECT_EQ(log_.recordings, 2);
}

struct FakeState final : RunState {
  std::optional<Key> key;
  std::optional<Key> RecordingKey() const override { return key; }
  void Enqueue(cuda::Stream&) const override { ADD_FAILURE() << "there is no stream"; }
};

TEST_F(PlacementTest, ARecordingServesRunsWithTheSameState) {
  Session session(Build(kDeviceChain));
  FakeState state;
  RunOptions options;
  options.state = &state;
  const auto forward = [&](int times) {
    for (int i = 0; i < times; ++i) session.Forward({Tensor::From<float>({1, 2}, {2})}, options);
  };
  forward(3);
  EXPECT_EQ(log_.recordings, 0) << "each run is another";
  for (size_t count : {1, 2}) {
    state.key = RunState::Key{&state, nullptr, count};
    forward(3);
    EXPECT_EQ(log_.recordings, static_cast<int>(count));
    EXPECT_EQ(log_.launches, static_cast<int>(2 * count));
  }
}

TEST_F(PlacementTest, AnOutputThatTheHostReadsIsMadeThere) {
  const auto graph = Build(
      "pnnx.Input pnnx_input_0 0 1 x\n"
      "test.add_one a 1 1 x 1\n"
      "test.positive b 1 1 1 2\n"
      "pnnx.Output pnnx_output_0 2 0 1 2\n");
  EXPECT_EQ(graph->outputs()[0].device, Device::Cpu()) << "b reads the same copy";
  EXPECT_EQ(graph->outputs()[1].device, Device::Cpu());
}

TEST_F(PlacementTest, WhatCannotBeRecordedRunsStepByStep) {
  log_.refuse_recordings = true;
  Session session(Build(kDeviceChain));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Floats(session.Forward({Tensor::From<float>({1, 2}, {2})})[0]),
              (std::vector<float>{3, 4}));
  }
  EXPECT_EQ(log_.launches, 0);
}

TEST_F(PlacementTest, RecordingCanBeTurnedOff) {
  Session session(Build(kDeviceChain), {.record_graphs = false});
  for (int i = 0; i < 4; ++i) session.Forward({Tensor::From<float>({1, 2}, {2})});
  EXPECT_EQ(log_.recordings, 0);
}

TEST_F(PlacementTest, ObserversSeeElementsOnTheHost) {
  Session session(Build(kDeviceChain));
  std::vector<float> seen;
  RunOptions options;
  options.observer = [&](const NodeEvent& event) {
    if (event.op.type == "oort.ToHost") seen = Floats(event.outputs[0].AsTensor());
  };
  session.Forward({Tensor::From<float>({1, 2}, {2})}, options);
  EXPECT_EQ(seen, (std::vector<float>{3, 4}));
}

TEST_F(PlacementTest, AProfileHasTheTimesOfTheDevice) {
  Session session(Build(kDeviceChain));
  Profile profile;
  RunOptions options;
  options.profile = &profile;
  session.Forward({Tensor::From<float>({1, 2}, {2})}, options);
  ASSERT_EQ(profile.steps.size(), 5u);
  for (const Profile::Slice& step : profile.steps) EXPECT_NEAR(step.seconds(), 0.25, 1e-9);
}

TEST_F(PlacementTest, InputsAndResultsMayBeOnTheDevice) {
  Session session(Build(kDeviceChain));
  FakeBackend backend(log_);
  RunOptions options;
  options.outputs = {backend.Upload(Tensor::Zeros(DType::kF32, {2}))};
  const Tensor x = backend.Upload(Tensor::From<float>({1, 2}, {2}));
  const std::vector<Tensor> results = session.Forward({x}, options);
  EXPECT_EQ(results[0].device(), Device::Cuda(0));
  EXPECT_EQ(Floats(results[0]), (std::vector<float>{3, 4}));
}

TEST_F(PlacementTest, AResultOfUnknownShapeMayBeOnTheDevice) {
  Session session(
      Build("pnnx.Input pnnx_input_0 0 1 x\n"
            "test.positive a 1 1 x 1\n"
            "test.add_one b 1 1 1 2\n"
            "pnnx.Output pnnx_output_0 1 0 2\n"));
  FakeBackend backend(log_);
  RunOptions options;
  options.outputs = {backend.Upload(Tensor::Zeros(DType::kF32, {2}))};
  const std::vector<Tensor> results =
      session.Forward({Tensor::From<float>({1, -1, 2}, {3})}, options);
  EXPECT_EQ(results[0].raw(), options.outputs[0].raw());
  EXPECT_EQ(Floats(results[0]), (std::vector<float>{2, 3}));
  testing::ExpectThrows(
      [&] {
        session.Forward({Tensor::From<float>({1, 2, 3}, {3})}, options);
      },
      ErrorCode::kInvalidArgument, "is (2)f32, but the output is (3)f32");
  EXPECT_EQ(Floats(results[0]), (std::vector<float>{2, 3}));
}

TEST_F(PlacementTest, ResultsThatShareMemoryMayBeOnTheDevice) {
  const auto graph = Build(
      "pnnx.Input pnnx_input_0 0 1 x\n"
      "test.add_one a 1 1 x y\n"
      "pnnx.Output pnnx_output_0 1 0 y\n"
      "pnnx.Output pnnx_output_1 1 0 y\n");
  for (const Port& output : graph->outputs()) EXPECT_EQ(output.device, Device::Cuda(0));
  Session session(graph);
  FakeBackend backend(log_);
  for (int places = 0; places < 4; ++places) {
    std::vector<Tensor> outputs(2);
    for (size_t i = 0; i < 2; ++i) {
      outputs[i] = Tensor::Zeros(DType::kF32, {1});
      if (((places >> i) & 1) != 0) outputs[i] = backend.Upload(outputs[i]);
    }
    session.ForwardInto(std::vector<Tensor>{Tensor::From<float>({1}, {1})}, outputs);
    for (const Tensor& output : outputs) EXPECT_EQ(Floats(output), (std::vector<float>{2}));
  }
  // What is made anew is on the host, wherever the other one is.
  std::vector<Tensor> outputs = {backend.Upload(Tensor::Zeros(DType::kF32, {1})), Tensor()};
  session.ForwardInto(std::vector<Tensor>{Tensor::From<float>({1}, {1})}, outputs);
  EXPECT_EQ(outputs[1].device(), Device::Cpu());
  EXPECT_EQ(Floats(outputs[1]), (std::vector<float>{2}));
}

TEST_F(PlacementTest, WhatTheHostReadsOrMakesCannotBeOnTheDevice) {
  FakeBackend backend(log_);
  const Tensor there = backend.Upload(Tensor::From<float>({1, 2}, {2}));
  const Tensor here = Tensor::From<float>({1, 2}, {2});
  Session session(
      Build("pnnx.Input pnnx_input_0 0 1 x\n"
            "test.add_one a 1 1 x 1\n"
            "test.positive b 1 1 1 2\n"
            "pnnx.Output pnnx_output_0 1 0 2\n"));
  RunOptions options;
  options.outputs = {there};
  testing::ExpectThrows([&] { session.Forward({here}, options); }, ErrorCode::kInvalidArgument,
                        "is on cuda:0, but the output is made on cpu");
  EXPECT_EQ(Floats(session.Forward({there})[0]), (std::vector<float>{2, 3}));
  Session reads(
      Build("pnnx.Input pnnx_input_0 0 1 x\n"
            "test.positive a 1 1 x 1\n"
            "pnnx.Output pnnx_output_0 1 0 1\n"));
  testing::ExpectThrows(
      [&] { reads.Forward({there}); }, ErrorCode::kInvalidArgument,
      "input 'pnnx_input_0' is on cuda:0, but the network reads it in host memory");
}

TEST_F(PlacementTest, WhoGoesOnFindsTheResultAfterTheWait) {
  Session session(Build(kDeviceChain));
  std::array<Tensor, 1> outputs = {Tensor::Zeros(DType::kF32, {2})};
  const std::array<Tensor, 1> inputs = {Tensor::From<float>({1, 2}, {2})};
  PendingForward pending = session.ForwardLater(inputs, outputs);
  EXPECT_EQ(log_.waits, 0);
  EXPECT_NE(Floats(outputs[0]), (std::vector<float>{3, 4}));
  pending.Wait();
  EXPECT_EQ(Floats(outputs[0]), (std::vector<float>{3, 4}));
  pending.Wait();  // again is nothing
  EXPECT_EQ(log_.waits, 1);
}

// A result that has to be taken out of something else is there at once.
TEST_F(PlacementTest, WhatTheHostStillCopiesIsNotLeftForLater) {
  Session session(
      Build("pnnx.Input pnnx_input_0 0 1 x\n"
            "test.add_one a 1 1 x y\n"
            "pnnx.Output pnnx_output_0 1 0 y\n"
            "pnnx.Output pnnx_output_1 1 0 y\n"));
  std::array<Tensor, 2> outputs = {Tensor::Zeros(DType::kF32, {1}),
                                   Tensor::Zeros(DType::kF32, {1})};
  const std::array<Tensor, 1> inputs = {Tensor::From<float>({1}, {1})};
  PendingForward pending = session.ForwardLater(inputs, outputs);
  for (const Tensor& output : outputs) EXPECT_EQ(Floats(output), (std::vector<float>{2}));
  EXPECT_EQ(log_.waits, 1);
  pending.Wait();
  for (const Tensor& output : outputs) EXPECT_EQ(Floats(output), (std::vector<float>{2}));
}

TEST_F(PlacementTest, ConstantsAreUploadedOnce) {
  Graph graph = GraphFromText(
      "pnnx.Input pnnx_input_0 0 1 x\n"
      "pnnx.Attribute weight 0 1 w @data=(2)f32\n"
      "test.sum2 a 2 2 x w 1 2\n"
      "test.sum2 b 2 2 1 w 3 4\n"
      "pnnx.Output pnnx_output_0 1 0 3\n");
  for (Operator& op : graph.operators) {
    if (op.name == "weight") op.attributes["data"] = Tensor::From<float>({10, 20}, {2});
  }
  LoadOptions options;
  options.registry = &registry_;
  options.device = Device::Cuda(0);
  const auto built = RuntimeGraph::Build(std::move(graph), options);
  EXPECT_EQ(log_.uploads, 1);
  EXPECT_EQ(built->Plan({Tensor::Meta(DType::kF32, {2})}).memory.device_weights, 8u);
  Session first(built), second(built);
  for (Session* session : {&first, &second}) {
    EXPECT_EQ(Floats(session->Forward({Tensor::From<float>({1, 2}, {2})})[0]),
              (std::vector<float>{21, 42}));
  }
}

TEST_F(PlacementTest, HostAndDeviceHaveArenasOfTheirOwn) {
  const auto graph = Build(
      "pnnx.Input pnnx_input_0 0 1 x\n"
      "test.add_one a 1 1 x 1\n"
      "test.pair b 1 1 1 2\n"
      "prim::TupleUnpack c 1 2 2 3 4\n"
      "test.sum2 d 2 2 3 4 5 6\n"
      "pnnx.Output pnnx_output_0 1 0 5\n");
  Session session(graph);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Floats(session.Forward({Tensor::From<float>({1, 2}, {2})})[0]),
              (std::vector<float>{5, 7}));
  }
  const MemoryReport memory = graph->Plan({Tensor::Meta(DType::kF32, {64})}).memory;
  EXPECT_GT(memory.device_arena, 0u);
  EXPECT_GT(memory.arena, 0u);
}

TEST(Placement, WithoutADeviceLoadingSaysSo) {
  LoadOptions options;
  options.device = Device::Cuda(4711);
  try {
    RuntimeGraph::Build(GraphFromText("pnnx.Input pnnx_input_0 0 1 x\n"
                                      "pnnx.Output pnnx_output_0 1 0 x\n"),
                        options);
    FAIL() << "there is no such device";
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::kDevice || error.code() == ErrorCode::kUnsupported);
  }
}

}  // namespace
}  // namespace oort
