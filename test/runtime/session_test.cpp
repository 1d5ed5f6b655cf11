// SPDX-License-Identifier: MIT
#include "oort/session.h"

#include <atomic>
#include <map>

#include "oort/profile.h"
#include "oort/testing.h"
#include "runtime/test_layers.h"

namespace oort {
namespace {

using Pointers = std::vector<std::pair<const float*, const float*>>;

AddOne::Probe Recorder(Pointers& seen) {
  return [&seen](const float* in, const float* out) { seen.emplace_back(in, out); };
}

constexpr const char* kChain =
    "pnnx.Input pnnx_input_0 0 1 x\n"
    "test.add_one a 1 1 x 1\n"
    "test.add_one b 1 1 1 2\n"
    "test.add_one c 1 1 2 3\n"
    "pnnx.Output pnnx_output_0 1 0 3\n";

template <typename Body>
std::string ErrorOf(ErrorCode code, Body body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(Name(error.code()), Name(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "expected an error";
  return "";
}

TEST(Session, RunsAChainInPlaceButLeavesTheInputAlone) {
  Pointers seen;
  Session session(BuildText(kChain, Recorder(seen)));
  const Tensor x = Tensor::From<float>({1, 2, 3}, {3});
  EXPECT_EQ(Floats(session.Forward({x})[0]), (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(Floats(x), (std::vector<float>{1, 2, 3}));
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].first, x.data<float>()) << "the input was copied";
  EXPECT_NE(seen[0].second, x.data<float>());
  EXPECT_EQ(seen[1].first, seen[1].second) << "b could run in place";
  EXPECT_EQ(seen[2].first, seen[2].second);
}

TEST(Session, ResultsAreTheCallersToKeep) {
  Session session(BuildText(kChain));
  const std::vector<Tensor> first = session.Forward({Tensor::From<float>({0}, {1})});
  const std::vector<Tensor> second = session.Forward({Tensor::From<float>({10}, {1})});
  EXPECT_EQ(Floats(first[0]), (std::vector<float>{3}));
  EXPECT_EQ(Floats(second[0]), (std::vector<float>{13}));
}

TEST(Session, LeavesOutWhatOnlyUnreadOutputsNeed) {
  constexpr const char* kTwo =
      "pnnx.Input pnnx_input_0 0 1 x\n"
      "test.add_one a 1 1 x 1\n"
      "test.add_one b 1 1 1 2\n"
      "test.add_one c 1 1 1 3\n"
      "pnnx.Output pnnx_output_0 2 0 2 3\n";
  Session session(BuildText(kTwo));
  std::vector<std::string> run;
  RunOptions options;
  options.observer = [&](const NodeEvent& event) { run.push_back(event.op.name); };
  const Tensor x = Tensor::From<float>({1}, {1});
  const auto forward = [&](uint64_t unread) {
    run.clear();
    options.unread_outputs = unread;
    return session.Forward({x}, options);
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(Floats(forward(1).at(1)), (std::vector<float>{3}));
  EXPECT_EQ(run, (Names{"a", "c"}));
  EXPECT_EQ(Floats(forward(2).at(0)), (std::vector<float>{3}));
  EXPECT_EQ(run, (Names{"a", "b"}));
  forward(3);
  EXPECT_EQ(run, Names{});
  EXPECT_EQ(Floats(forward(0).at(1)), (std::vector<float>{3}));
  EXPECT_EQ(run, (Names{"a", "b", "c"}));
  Profile profile;
  options.profile = &profile;
  forward(1);
  ASSERT_EQ(profile.steps.size(), 3u);
  EXPECT_EQ(profile.steps[1].node, 1);
  EXPECT_EQ(profile.steps[1].seconds(), 0);
  EXPECT_EQ(profile.work[1].bytes, 0);
  EXPECT_GT(profile.work[2].bytes, 0);
}

/// test.weighted: x as it is. Has weights, and remembers what it may prefetch.
class Weighted final : public Layer {
 public:
  using Seen = std::map<std::string, std::span<const std::byte>>;
  Weighted(std::string name, Seen& own, Seen& next)
      : name_(std::move(name)), weights_(8), next_(next) {
    own[name_] = weights_;
  }
  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(DType::kF32, args.shape(0))};
  }
  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    next_[name_] = context.next_weights();
    CopyElements(args.tensor(0), outputs[0].AsTensor());
  }
  std::span<const std::byte> WeightBytes() const override { return weights_; }
  LayerTraits Traits() const override {
    const int64_t rows = static_cast<int64_t>(name_.size());
    return {.batch_invariant_rows = rows, .fast_invariant_rows = rows};
  }

 private:
  std::string name_;
  std::vector<std::byte> weights_;
  Seen& next_;
};

TEST(Session, TellsLayersWhatWeightsAreReadNext) {
  Weighted::Seen own, next;
  LayerRegistry registry = TestRegistry();
  OperatorSchema schema({"test.weighted"}, "for tests");
  schema.Tensor("input", kF32Only);
  registry.Add(schema, [&](const LayerInit& init) {
    return std::make_unique<Weighted>(init.op().name, own, next);
  });
  LoadOptions load;
  load.registry = &registry;
  const auto graph = RuntimeGraph::Build(GraphFromText("pnnx.Input pnnx_input_0 0 1 x\n"
                                                       "test.weighted first 1 1 x 1\n"
                                                       "test.add_one between 1 1 1 2\n"
                                                       "test.weighted left 1 1 2 3\n"
                                                       "test.weighted right 1 1 2 4\n"
                                                       "pnnx.Output pnnx_output_0 2 0 3 4\n"),
                                         load);
  EXPECT_EQ(graph->BatchInvariantRows(), 4);
  EXPECT_EQ(graph->FastInvariantRows(), 5);  // of most
  Session session(graph);
  const auto forward = [&](uint64_t unread) {
    next.clear();
    RunOptions options;
    options.unread_outputs = unread;
    session.Forward({Tensor::From<float>({1}, {1})}, options);
  };
  const auto is = [&](const char* layer, const char* wanted) {
    return next.at(layer).data() == own.at(wanted).data();
  };
  forward(0);
  EXPECT_TRUE(is("first", "left"));
  EXPECT_TRUE(is("left", "right"));
  EXPECT_TRUE(next.at("right").empty());
  forward(1);  // `left` does not run
  EXPECT_TRUE(is("first", "right"));
  forward(2);
  EXPECT_TRUE(is("first", "left"));
  EXPECT_TRUE(next.at("left").empty());
}

TEST(Session, TakesAnotherShapeAtEveryCall) {
  Session session(BuildText(kChain));
  for (int64_t length : {3, 1, 0, 7, 3, 1000, 1}) {
    const Tensor x = testing::RangeTensor(DType::kF32, {length});
    const std::vector<Tensor> y = session.Forward({x});
    EXPECT_EQ(y[0].shape(), (Shape{length}));
    for (int64_t i = 0; i < length; ++i) {
      EXPECT_EQ(y[0].data<float>()[i], static_cast<float>(i + 3));
    }
  }
}

TEST(Session, WritesIntoTheCallersBuffer) {
  Session session(BuildText(kChain));
  std::vector<float> memory(3, -1);
  RunOptions options;
  options.outputs = {Tensor::Borrow(memory.data(), {3})};
  const auto y = session.Forward({Tensor::From<float>({1, 2, 3}, {3})}, options);
  EXPECT_EQ(y[0].data<float>(), memory.data());
  EXPECT_EQ(memory, (std::vector<float>{4, 5, 6}));
  options.outputs = {Tensor(DType::kF32, {4})};
  const std::string text = ErrorOf(ErrorCode::kInvalidArgument, [&] {
    session.Forward({Tensor::From<float>({1, 2, 3}, {3})}, options);
  });
  EXPECT_NE(text.find("(4)f32"), std::string::npos) << text;
  EXPECT_NE(text.find("(3)f32"), std::string::npos) << text;
}

TEST(Session, ForwardIntoFillsWhatIsGivenAndMakesTheRest) {
  Session session(
      BuildText("pnnx.Input pnnx_input_0 0 1 x\n"
                "test.add_one a 1 1 x 1\n"
                "test.flat view 1 1 x 2\n"
                "pnnx.Output pnnx_output_0 3 0 1 2 x\n"));
  const std::vector<Tensor> inputs = {Tensor::From<float>({1, 2}, {1, 2})};
  std::vector<float> memory(2, -1), copy(2, -1);
  std::vector<Tensor> outputs = {Tensor::Borrow(memory.data(), {1, 2}),
                                 Tensor::Borrow(copy.data(), {2}), Tensor()};
  for (int round = 0; round < 2; ++round) {
    session.ForwardInto(inputs, outputs);
    EXPECT_EQ(memory, (std::vector<float>{2, 3}));
    EXPECT_EQ(copy, (std::vector<float>{1, 2}));
    EXPECT_EQ(Floats(outputs[2]), (std::vector<float>{1, 2}));
  }
  EXPECT_NE(outputs[2].raw(), inputs[0].raw());
  EXPECT_EQ(inputs[0].buffer().use_count(), 1);
  EXPECT_EQ(outputs[0].buffer().use_count(), 1);
  ErrorOf(ErrorCode::kInvalidArgument,
          [&] { session.ForwardInto(inputs, std::span(outputs).first(2)); });
  ErrorOf(ErrorCode::kInvalidArgument, [&] {
    std::vector<Tensor> wrong = {Tensor(DType::kF32, {3}), {}, {}};
    session.ForwardInto(inputs, wrong);
  });
  session.ForwardInto(inputs, outputs);
  EXPECT_EQ(memory, (std::vector<float>{2, 3}));
}

TEST(Session, ForwardIntoTakesAnotherShapeAtEveryCall) {
  Session session(BuildText(kChain));
  for (int64_t length : {3, 1, 0, 7, 3}) {
    const std::vector<Tensor> inputs = {testing::RangeTensor(DType::kF32, {length})};
    std::vector<Tensor> outputs(1);
    session.ForwardInto(inputs, outputs);
    EXPECT_EQ(outputs[0].shape(), (Shape{length}));
    for (int64_t i = 0; i < length; ++i) {
      EXPECT_EQ(outputs[0].data<float>()[i], static_cast<float>(i + 3));
    }
  }
}

TEST(Session, AnOutputThatIsAnInputIsCopied) {
  Session session(
      BuildText("pnnx.Input pnnx_input_0 0 1 x\n"
                "test.flat view 1 1 x 1\n"
                "pnnx.Output pnnx_output_0 2 0 x 1\n"));
  Tensor x = Tensor::From<float>({1, 2}, {1, 2});
  const std::vector<Tensor> y = session.Forward({x});
  x.data<float>()[0] = 9;
  EXPECT_EQ(Floats(y[0]), (std::vector<float>{1, 2}));
  EXPECT_EQ(y[1].shape(), (Shape{2}));
  EXPECT_EQ(Floats(y[1]), (std::vector<float>{1, 2}));
}

TEST(Session, ViewsCostNothingAndBlockReuse) {
  Pointers seen;
  Session session(
      BuildText("pnnx.Input pnnx_input_0 0 1 x\n"
                "test.add_one a 1 1 x 1\n"
                "test.flat view 1 1 1 2\n"
                "test.add_one b 1 1 1 3\n"  // may not overwrite 1: the view is read later
                "test.add_one c 1 1 2 4\n"
                "pnnx.Output pnnx_output_0 2 0 3 4\n",
                Recorder(seen)));
  const std::vector<Tensor> y = session.Forward({Tensor::From<float>({1, 2}, {1, 2})});
  EXPECT_EQ(Floats(y[0]), (std::vector<float>{3, 4}));
  EXPECT_EQ(Floats(y[1]), (std::vector<float>{3, 4}));
  EXPECT_EQ(y[1].shape(), (Shape{2}));
  EXPECT_EQ(seen[2].first, seen[1].first) << "the view was copied";
  EXPECT_NE(seen[1].first, seen[1].second);
}

TEST(Session, SeveralInputsAndOutputsByName) {
  Session session(
      BuildText("pnnx.Input pnnx_input_1 0 1 right\n"
                "pnnx.Input pnnx_input_0 0 1 left\n"
                "test.sum2 both 2 2 left right sum difference\n"
                "test.add_one more 1 1 difference 4\n"
                "prim::TupleConstruct tuple 3 1 sum 4 sum 5\n"
                "pnnx.Output pnnx_output_0 1 0 5\n"));
  const Tensor left = Tensor::From<float>({5, 7}, {2}), right = Tensor::From<float>({1, 2}, {2});
  const std::vector<Tensor> y = session.Forward({left, right});
  ASSERT_EQ(y.size(), 3u);
  EXPECT_EQ(Floats(y[0]), (std::vector<float>{6, 9}));
  EXPECT_EQ(Floats(y[1]), (std::vector<float>{5, 6}));
  EXPECT_EQ(Floats(y[2]), (std::vector<float>{6, 9}));
  EXPECT_NE(y[0].data<float>(), y[2].data<float>());

  const auto named = session.ForwardNamed({{"right", right}, {"pnnx_input_0", left}});
  ASSERT_EQ(named.size(), 3u);
  EXPECT_EQ(named[1].first, "pnnx_output_1");
  EXPECT_EQ(Floats(named[1].second), (std::vector<float>{5, 6}));
  const std::string text = ErrorOf(ErrorCode::kNotFound, [&] {
    session.ForwardNamed({{"middle", left}, {"right", right}});
  });
  EXPECT_NE(text.find("pnnx_input_0, pnnx_input_1"), std::string::npos) << text;
  ErrorOf(ErrorCode::kInvalidArgument, [&] { session.ForwardNamed({{"right", right}}); });
  // By place, as the command line has it.
  EXPECT_EQ(Floats(session.ForwardNamed({{"in1", right}, {"in0", left}})[1].second),
            (std::vector<float>{5, 6}));
  ErrorOf(ErrorCode::kNotFound, [&] { session.ForwardNamed({{"in2", left}, {"in0", left}}); });
  ErrorOf(ErrorCode::kInvalidArgument, [&] {
    session.ForwardNamed({{"in0", left}, {"left", left}});
  });
}

std::shared_ptr<const RuntimeGraph> BuildPnnx(const std::string& lines) {
  return RuntimeGraph::Build(ReadPnnxParam(*ByteSource::Owned("7767517\n" + lines)));
}

TEST(Session, AShapeThatDoesNotFitIsToldOfTheInput) {
  // The pass over layouts puts an operator of its own before the pooling.
  Session session(BuildPnnx(
      "3 2\npnnx.Input pnnx_input_0 0 1 x #x=(1,3,8,8)f32\n"
      "F.max_pool2d pool 1 1 x y ceil_mode=False dilation=(1,1) kernel_size=(2,2) padding=(0,0) "
      "return_indices=False stride=(2,2) $input=x #x=(1,3,8,8)f32 #y=(1,3,4,4)f32\n"
      "pnnx.Output pnnx_output_0 1 0 y #y=(1,3,4,4)f32\n"));
  EXPECT_EQ(session.Forward({Tensor::Zeros(DType::kF32, {2, 3, 6, 6})})[0].shape(),
            (Shape{2, 3, 3, 3}));
  const std::string text = ErrorOf(ErrorCode::kInvalidArgument, [&] {
    session.Forward({Tensor::Zeros(DType::kF32, {8, 8})});
  });
  EXPECT_TRUE(
      text.starts_with("input 'pnnx_input_0' is (8,8)f32, the model was traced with (1,3,8,8)f32"))
      << text;
  EXPECT_EQ(text.find("channels_last"), std::string::npos) << text;
}

TEST(Session, ASizeThatTheTraceFixedIsToldWithTheWayOut) {
  Session session(
      BuildPnnx("3 2\npnnx.Input pnnx_input_0 0 1 x #x=(1,8,3)f32\n"
                "Tensor.view view 1 1 x y shape=(1,24) $input=x #x=(1,8,3)f32 #y=(1,24)f32\n"
                "pnnx.Output pnnx_output_0 1 0 y #y=(1,24)f32\n"));
  const std::string text = ErrorOf(ErrorCode::kInvalidArgument, [&] {
    session.Forward({Tensor::Zeros(DType::kF32, {2, 8, 3})});
  });
  EXPECT_NE(text.find("is (2,8,3)f32, the model was traced with (1,8,3)f32"), std::string::npos)
      << text;
  EXPECT_NE(text.find("inputs2="), std::string::npos) << text;
  EXPECT_NE(text.find("operator 'view' (Tensor.view, line 4)"), std::string::npos) << text;
}

TEST(Session, StaysUsableAfterAnError) {
  Session session(
      BuildText("pnnx.Input pnnx_input_0 0 1 0\n"
                "pnnx.Input pnnx_input_1 0 1 1\n"
                "test.sum2 both 2 2 0 1 2 3\n"
                "pnnx.Output pnnx_output_0 2 0 2 3\n"));
  const Tensor two = Tensor::From<float>({1, 2}, {2}), one = Tensor::From<float>({1}, {1});
  const std::string text = ErrorOf(ErrorCode::kInvalidArgument, [&] {
    session.Forward({two, one});
  });
  EXPECT_NE(text.find("operator 'both' (test.sum2, line 5)"), std::string::npos) << text;
  ErrorOf(ErrorCode::kInvalidArgument, [&] { session.Forward({two}); });
  ErrorOf(ErrorCode::kInvalidArgument, [&] { session.Forward({two, Tensor()}); });
  ErrorOf(ErrorCode::kInvalidArgument, [&] {
    session.Forward({two, Tensor::Meta(DType::kF32, {2})});
  });
  const std::string dtype = ErrorOf(ErrorCode::kInvalidArgument, [&] {
    session.Forward({two, Tensor::From<double>({1, 2}, {2})});
  });
  EXPECT_NE(dtype.find("'other' has dtype f64; it takes f32"), std::string::npos) << dtype;
  EXPECT_EQ(Floats(session.Forward({two, two})[0]), (std::vector<float>{2, 4}));
}

TEST(Session, SizesThatDependOnDataAreFoundWhileRunning) {
  Session session(
      BuildText("pnnx.Input pnnx_input_0 0 1 0\n"
                "test.positive some 1 1 0 1\n"
                "test.flat flat 1 1 1 2\n"
                "test.size count 1 1 2 3\n"
                "test.ones ones 1 1 3 4\n"
                "test.sum2 both 2 2 2 4 5 6\n"
                "pnnx.Output pnnx_output_0 2 0 1 5\n"));
  auto y = session.Forward({Tensor::From<float>({-1, 2, 3}, {3})});
  EXPECT_EQ(Floats(y[0]), (std::vector<float>{2, 3}));
  EXPECT_EQ(Floats(y[1]), (std::vector<float>{3, 4}));
  y = session.Forward({Tensor::From<float>({1, 2, 3}, {3})});
  EXPECT_EQ(Floats(y[1]), (std::vector<float>{2, 3, 4}));
  y = session.Forward({Tensor::From<float>({-1, -2, -3}, {3})});
  EXPECT_EQ(y[1].shape(), (Shape{0}));
}

TEST(Session, SizesThatDependOnShapesAreKnownBefore) {
  const auto graph = BuildText(
      "pnnx.Input pnnx_input_0 0 1 0\n"
      "test.size count 1 1 0 1\n"
      "test.ones ones 1 1 1 2\n"
      "pnnx.Output pnnx_output_0 1 0 2\n");
  EXPECT_EQ(graph->InferShapes({Tensor::Meta(DType::kF32, {2, 5})})[0].shape(), (Shape{10}));
  EXPECT_EQ(Session(graph).Forward({Tensor::Zeros(DType::kF32, {4})})[0].shape(), (Shape{4}));
}

TEST(Session, TuplesMadeByAnOperatorAreFlattened) {
  Session session(
      BuildText("pnnx.Input pnnx_input_0 0 1 0\n"
                "test.add_one a 1 1 0 1\n"
                "test.pair pair 1 1 1 2\n"
                "test.add_one later 1 1 0 3\n"  // must not reuse memory that the tuple still shares
                "pnnx.Output pnnx_output_0 2 0 2 3\n"));
  const auto y = session.Forward({Tensor::From<float>({1}, {1})});
  ASSERT_EQ(y.size(), 3u);
  EXPECT_EQ(Floats(y[0]), (std::vector<float>{2}));
  EXPECT_EQ(Floats(y[1]), (std::vector<float>{3}));
  EXPECT_EQ(Floats(y[2]), (std::vector<float>{2}));
}

TEST(Session, StopsBetweenOperatorsAndGoesOnLater) {
  std::stop_source stop;
  int calls = 0;
  Session session(BuildText(kChain, [&](const float*, const float*) {
    if (++calls == 2) stop.request_stop();
  }));
  RunOptions options;
  options.stop = stop.get_token();
  ErrorOf(ErrorCode::kCancelled,
          [&] { session.Forward({Tensor::From<float>({1}, {1})}, options); });
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(Floats(session.Forward({Tensor::From<float>({1}, {1})})[0]), (std::vector<float>{4}));
}

/// Asks to stop in the first piece of a long loop, and counts what is run of it.
class StopsItself : public Layer {
 public:
  static constexpr int64_t kItems = 1 << 20;
  StopsItself(std::stop_source& stop, std::atomic<int64_t>& items) : stop_(stop), items_(items) {}
  std::vector<Value> Infer(const Args& args) const override { return {*args.inputs()[0]}; }
  void Forward(const Context& context, const Args&, std::span<Value>) const override {
    context.ParallelFor(kItems, 1, [&](int64_t begin, int64_t end) {
      items_ += end - begin;
      stop_.request_stop();
    });
    ADD_FAILURE() << "the loop went on to its end";
  }

 private:
  std::stop_source& stop_;
  std::atomic<int64_t>& items_;
};

TEST(Session, StopsWithinALongOperator) {
  for (const int threads : {1, 2}) {
    std::stop_source stop;
    std::atomic<int64_t> items = 0;
    LayerRegistry registry = LayerRegistry::Global();
    OperatorSchema schema({"test.stops"}, "for tests");
    registry.Add(schema.Tensor("input", kF32Only), [&](const LayerInit&) -> std::unique_ptr<Layer> {
      return std::make_unique<StopsItself>(stop, items);
    });
    LoadOptions load;
    load.registry = &registry;
    const Graph graph = ReadPnnxParam(*ByteSource::Owned(
        "7767517\n3 2\npnnx.Input in 0 1 0\ntest.stops s 1 1 0 1\npnnx.Output out 1 0 1\n"));
    Session session(RuntimeGraph::Build(graph, load), {.threads = threads});
    RunOptions options;
    options.stop = stop.get_token();
    const std::string text = ErrorOf(ErrorCode::kCancelled, [&] {
      session.Forward({Tensor::Zeros(DType::kF32, {1})}, options);
    });
    EXPECT_EQ(text, "the run was cancelled");
    EXPECT_LE(items, threads * StopsItself::kItems / 32);
  }
}

TEST(Session, HoldsItsMemoryLimit) {
  Session session(BuildText(kChain), {.memory_limit = 4096});
  EXPECT_NO_THROW(session.Forward({Tensor::Zeros(DType::kF32, {100})}));
  const std::string text =
      ErrorOf(ErrorCode::kLimit, [&] { session.Forward({Tensor::Zeros(DType::kF32, {100000})}); });
  EXPECT_NE(text.find("4096"), std::string::npos) << text;
  EXPECT_NO_THROW(session.Forward({Tensor::Zeros(DType::kF32, {100})}));
}

TEST(Session, HoldsItsMemoryLimitWhereOnlyTheElementsTellTheSize) {
  // As many classes as the largest index says.
  constexpr const char* kOneHot =
      "7767517\n3 2\npnnx.Input in 0 1 0 #0=(1)i64\n"
      "F.one_hot hot 1 1 0 1 num_classes=-1\npnnx.Output out 1 0 1\n";
  const auto graph = RuntimeGraph::Build(ReadPnnxParam(*ByteSource::Owned(kOneHot)));
  Session session(graph, {.memory_limit = 4096});
  EXPECT_EQ(session.Forward({Tensor::From<int64_t>({99}, {1})})[0].shape(), (Shape{1, 100}));
  ErrorOf(ErrorCode::kLimit, [&] { session.Forward({Tensor::From<int64_t>({1 << 30}, {1})}); });
  EXPECT_NO_THROW(session.Forward({Tensor::From<int64_t>({99}, {1})}));
}

TEST(Session, HoldsConstantOperandsAgainstTheSchema) {
  const auto build = [](const std::string& stride) {
    return RuntimeGraph::Build(ReadPnnxParam(*ByteSource::Owned(
        "7767517\n5 4\npnnx.Input in 0 1 0 #0=(1,1,3,3)f32\n"
        "pnnx.Input weight 0 1 1 #1=(1,1,1,1)f32\npnnx.Expression s 0 1 2 expr=" +
        stride +
        "\nF.conv2d c 3 1 0 1 2 3 $input=0 $weight=1 $stride=2\npnnx.Output out 1 0 3\n")));
  };
  ErrorOf(ErrorCode::kInvalidModel, [&] { build("[2,2,2]"); });
  ErrorOf(ErrorCode::kInvalidModel, [&] { build("0"); });
  ErrorOf(ErrorCode::kInvalidModel, [&] { build("word"); });
  for (const char* stride : {"2", "[2]", "[2,2]"}) {  // one number stands for both axes
    Session session(build(stride));
    const Tensor x = Tensor::Zeros(DType::kF32, {1, 1, 3, 3});
    const Tensor w = Tensor::Zeros(DType::kF32, {1, 1, 1, 1});
    EXPECT_EQ(session.Forward({x, w})[0].shape(), (Shape{1, 1, 2, 2}));
  }
}

TEST(Session, ObserverSeesEveryOperator) {
  Session session(BuildText(kChain));
  std::string names;
  RunOptions options;
  options.observer = [&](const NodeEvent& event) {
    names += event.op.name;
    EXPECT_EQ(event.outputs.size(), 1u);
    EXPECT_GE(event.seconds, 0);
  };
  session.Forward({Tensor::From<float>({1}, {1})}, options);
  EXPECT_EQ(names, "abc");
}

TEST(Session, DoesNotKeepTheCallersTensors) {
  Session session(BuildText(kChain));
  const Tensor x = Tensor::From<float>({1}, {1});
  const std::vector<Tensor> y = session.Forward({x});
  EXPECT_EQ(x.buffer().use_count(), 1);
  EXPECT_EQ(y[0].buffer().use_count(), 1);
}

TEST(Plan, ReportsReuseAndWork) {
  const auto graph = BuildText(
      "pnnx.Input pnnx_input_0 0 1 0\n"
      "test.add_one a 1 1 0 1\n"
      "test.add_one b 1 1 1 2\n"
      "test.sum2 s 2 2 2 0 3 4\n"
      "test.add_one d 1 1 4 5\n"
      "pnnx.Output pnnx_output_0 2 0 3 5\n");
  const PlanReport report = graph->Plan({Tensor::Meta(DType::kF32, {256})});
  ASSERT_EQ(report.nodes.size(), 4u);
  EXPECT_EQ(report.memory.without_reuse, 5 * 1024u);
  EXPECT_EQ(report.memory.outputs, 2 * 1024u);
  EXPECT_EQ(report.memory.arena, 1024u);  // 1 and 2 share; 3 and 5 are the caller's
  EXPECT_EQ(report.nodes[1].sharing, "in place of 1");
  EXPECT_EQ(report.nodes[0].work.flops, 256);
  EXPECT_EQ(report.nodes[0].outputs[0], "(256)f32");
}

}  // namespace
}  // namespace oort
