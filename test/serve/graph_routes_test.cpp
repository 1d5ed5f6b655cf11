// SPDX-License-Identifier: MIT
// Graphs by KServe's inference protocol.
#include <atomic>
#include <cstring>
#include <future>
#include <limits>
#include <thread>

#include "kit/errors.h"
#include "kit/paths.h"
#include "oort/npy.h"
#include "oort/pnnx.h"
#include "oort/session.h"
#include "serve/served_model.h"
#include "serve/v2_tensors.h"

namespace oort::serve {
namespace {

const std::string kInfer = "/v2/models/digits/infer";

std::filesystem::path Digits() { return SourceTree() / "models/digits"; }

std::shared_ptr<const RuntimeGraph> DigitsGraph() {
  static const auto graph =
      RuntimeGraph::Load(Digits() / "digits.pnnx.param", Digits() / "digits.pnnx.bin");
  return graph;
}

ServeOptions WithDigits(GraphOptions graph = {.threads = 1}) {
  ServeOptions options = Options();
  options.served.model = nullptr;
  options.graphs = {{.name = "digits", .load = DigitsGraph, .options = graph}};
  return options;
}

/// A picture of its own for each number.
Tensor Picture(int number, int64_t rows = 1) {
  Tensor tensor(DType::kF32, Shape{rows, 1, 28, 28});
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    tensor.data<float>()[i] = static_cast<float>((i * (number + 3) * 7919) % 256) / 256;
  }
  return tensor;
}

std::vector<float> Alone(const Tensor& input) {
  Session session(DigitsGraph(), {.threads = 1});
  const Tensor output = session.Forward({input}).at(0);
  return {output.span<float>().begin(), output.span<float>().end()};
}

Json Request(const Tensor& input) {
  Json tensor = {{"name", "pnnx_input_0"}, {"datatype", "FP32"}};
  for (const int64_t extent : input.shape()) tensor["shape"].push_back(extent);
  tensor["data"] = std::vector<float>(input.span<float>().begin(), input.span<float>().end());
  return {{"id", "mine"}, {"inputs", {tensor}}};
}

std::vector<float> Numbers(const Answer& answer) {
  EXPECT_EQ(answer.status, 200) << answer.body;
  if (answer.status != 200) return {};
  return Json::parse(answer.body)["outputs"][0]["data"].get<std::vector<float>>();
}

/// A request whose tensor stands behind its JSON.
std::string Binary(const Json& head, std::string_view bytes, const std::string& length = "") {
  const std::string text = head.dump();
  const std::string said = length.empty() ? std::to_string(text.size()) : length;
  return "POST " + kInfer + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
         "application/octet-stream\r\nInference-Header-Content-Length: " + said +
         "\r\nContent-Length: " + std::to_string(text.size() + bytes.size()) + "\r\n\r\n" + text +
         std::string(bytes);
}

std::string_view BytesOf(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.raw()), tensor.bytes()};
}

TEST(GraphRoutes, TellsWhatThereIs) {
  const Fixture fixture(WithDigits());
  EXPECT_EQ(Json::parse(fixture.Get("/v2").body)["name"], "oort");
  EXPECT_EQ(fixture.Get("/v2/health/live").status, 200);
  EXPECT_EQ(fixture.Get("/v2/health/ready").status, 200);
  const Json ready = Json::parse(fixture.Get("/v2/models/digits/ready").body);
  EXPECT_EQ(ready["ready"], true);
  EXPECT_EQ(ready["state"], "unloaded");
  const Json model = Json::parse(fixture.Get("/v2/models/digits").body);
  EXPECT_EQ(model["name"], "digits");
  EXPECT_EQ(model["inputs"][0]["name"], "pnnx_input_0");
  EXPECT_EQ(model["inputs"][0]["datatype"], "FP32");
  EXPECT_EQ(model["inputs"][0]["shape"].size(), 4u);
  EXPECT_EQ(model["outputs"].size(), 1u);
  EXPECT_EQ(Json::parse(fixture.Get("/v2/models/digits/versions/1/ready").body)["state"], "loaded");
  EXPECT_EQ(fixture.Get("/v2/models/digits/versions/2").status, 404);
  EXPECT_EQ(fixture.Get("/v2/models/other").status, 404);
  EXPECT_EQ(fixture.Get("/v2/models/digits/stats").status, 404);
  ExpectError(fixture.Post("/v1/completions", {{"prompt", "x"}}), 404, "model_not_found");
  EXPECT_EQ(Json::parse(fixture.Get("/v1/models").body)["data"].size(), 0u);
}

TEST(GraphRoutes, AnswersAsASessionDoes) {
  const Fixture fixture(WithDigits());
  const Tensor input = ReadNpy(Digits() / "case/in0.npy");
  const std::vector<float> expected = Alone(input);
  const Answer answer = fixture.Post(kInfer, Request(input));
  EXPECT_EQ(Numbers(answer), expected);
  const Json body = Json::parse(answer.body);
  EXPECT_EQ(body["id"], "mine");
  EXPECT_EQ(body["model_name"], "digits");
  EXPECT_EQ(body["outputs"][0]["datatype"], "FP32");
  const Tensor torch = ReadNpy(Digits() / "case/out0.npy");
  ASSERT_EQ(expected.size(), static_cast<size_t>(torch.elements()));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(expected[i], torch.data<float>()[i], 1e-3) << i;
  }
  // Nested lists, another name of the input, and a named output say the same.
  const Tensor picture = Picture(1);
  Json rows = Json::array();
  for (int64_t y = 0; y < 28; ++y) {
    const float* row = picture.data<float>() + y * 28;
    rows.push_back(std::vector<float>(row, row + 28));
  }
  Json channels = Json::array({rows});
  Json nested = Request(picture);
  nested["inputs"][0]["data"] = Json::array({channels});
  nested["inputs"][0]["name"] = "in0";
  nested["outputs"] = {{{"name", "out0"}}};
  EXPECT_EQ(Numbers(fixture.Post("/v2/models/digits/versions/1/infer", nested)), Alone(picture));
}

TEST(GraphRoutes, TakesAndGivesBytes) {
  const Fixture fixture(WithDigits());
  const Tensor input = Picture(1);
  const std::vector<float> expected = Alone(input);
  Json head = Request(input);
  head["inputs"][0].erase("data");
  head["inputs"][0]["parameters"] = {{"binary_data_size", input.bytes()}};
  EXPECT_EQ(Numbers(fixture.Ask(Binary(head, BytesOf(input)))), expected);
  head["parameters"] = {{"binary_data_output", true}};
  const Answer answer = fixture.Ask(Binary(head, BytesOf(input)));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_TRUE(answer.Has("Content-Type: application/octet-stream\r\n"));
  const std::string field = "Inference-Header-Content-Length: ";
  const size_t at = answer.head.find(field);
  ASSERT_NE(at, std::string::npos);
  const size_t json = std::stoul(answer.head.substr(at + field.size()));
  const Json body = Json::parse(answer.body.substr(0, json));
  EXPECT_EQ(body["outputs"][0]["parameters"]["binary_data_size"], expected.size() * 4);
  ASSERT_EQ(answer.body.size(), json + expected.size() * 4);
  EXPECT_EQ(std::memcmp(answer.body.data() + json, expected.data(), expected.size() * 4), 0);
}

TEST(GraphRoutes, RefusesWhatItCannotRun) {
  const Fixture fixture(WithDigits());
  const Json good = Request(Picture(1));
  const auto refused = [&](const Json& request, const std::string& text) {
    const Answer answer = fixture.Post(kInfer, request);
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_NE(answer.body.find(text), std::string::npos) << answer.body;
    EXPECT_TRUE(Json::parse(answer.body)["error"].is_string());
  };
  const auto with = [&](const std::string& key, const Json& value) {
    Json request = good;
    request["inputs"][0][key] = value;
    request["id"] = std::string(1000, 'x');  // a body that could hold the tensor
    return request;
  };
  refused(Json::object(), "inputs");
  refused({{"inputs", Json::array()}}, "lacks");
  refused(with("name", "other"), "no input");
  refused(with("datatype", "FP64"), "FP32");
  refused(with("datatype", "FP99"), "FP99");
  refused(with("shape", {1, 1, 28, 27}), "elements");
  refused(with("shape", {1, 1, 28, -1}), "shape");
  refused(with("shape", {2147483647, 2147483647, 2147483647}), "");
  refused(with("shape", {1000000000}), "more elements");
  refused(with("shape", {1, 1, 1, 1, 1, 1, 1, 784, 1}), "shape");
  refused(with("shape", {1, 784}), "");
  refused(with("shape", "28"), "shape");
  refused(with("data", {1, 2, 3}), "3 elements");
  refused(with("data", "no"), "list");
  refused(with("data", Json(std::vector<std::string>(784, "1"))), "numbers");
  refused(with("data", Json::array({Json::array({1, 2})})), "nested");
  refused(with("more", 1), "more");
  refused(with("parameters", {{"binary_data_size", 3136}}), "data");
  Json twice = good;
  twice["inputs"].push_back(good["inputs"][0]);
  refused(twice, "twice");
  Json output = good;
  output["outputs"] = {{{"name", "other"}}};
  refused(output, "no output");
  output["outputs"] = {{{"name", "out0"}}, {{"name", "out0"}}};
  refused(output, "twice");
  Json parameters = good;
  parameters["parameters"] = {{"sequence_id", 1}};
  refused(parameters, "sequence_id");
  EXPECT_EQ(fixture.PostBytes(kInfer, "{").status, 400);
  EXPECT_EQ(fixture.Post("/v2/models/other/infer", good).status, 404);
  EXPECT_EQ(fixture.Post("/v2/models/digits", good).status, 404);
  EXPECT_EQ(fixture.Get(kInfer).status, 404);

  const Tensor input = Picture(1);
  Json head = good;
  head["inputs"][0].erase("data");
  head["inputs"][0]["parameters"] = {{"binary_data_size", input.bytes()}};
  const auto bytes_refused = [&](const std::string& request, const std::string& text) {
    const Answer answer = fixture.Ask(request);
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_NE(answer.body.find(text), std::string::npos) << answer.body;
  };
  bytes_refused(Binary(head, BytesOf(input).substr(4)), "more bytes");
  bytes_refused(Binary(head, std::string(BytesOf(input)) + "more"), "over");
  bytes_refused(Binary(head, BytesOf(input), "999999"), "more than the body");
  bytes_refused(Binary(head, BytesOf(input), "-1"), "number");
  head["inputs"][0]["parameters"]["binary_data_size"] = 4;
  bytes_refused(Binary(head, BytesOf(input)), "binary_data_size");
  // What came before has broken nothing.
  EXPECT_EQ(Numbers(fixture.Post(kInfer, good)), Alone(Picture(1)));
}

TEST(GraphRoutes, OnlyTensorsMayBeLarge) {
  ServeOptions options = WithDigits();
  options.limits.body_bytes = 10'000;
  const Fixture fixture(std::move(options));
  const std::string large(20'000, ' ');
  EXPECT_EQ(fixture.PostBytes("/v1/completions", large).status, 413);
  EXPECT_EQ(fixture.PostBytes(kInfer, large).status, 413);  // JSON
  const Tensor input = Picture(1, 8);
  Json head = Request(input);
  head["inputs"][0].erase("data");
  head["inputs"][0]["parameters"] = {{"binary_data_size", input.bytes()}};
  EXPECT_EQ(Numbers(fixture.Ask(Binary(head, BytesOf(input)))), Alone(input));
}

TEST(GraphRoutes, EachOfManyGetsWhatItGetsAlone) {
  for (const bool exact : {false, true}) {
    const Fixture fixture(WithDigits({.threads = 1, .exact = exact, .batch_wait = 50ms}));
    std::vector<std::future<std::vector<float>>> answers;
    for (int i = 0; i < 24; ++i) {
      answers.push_back(std::async(std::launch::async, [&fixture, i] {
        return Numbers(fixture.Post(kInfer, Request(Picture(i, i % 5 == 0 ? 2 : 1))));
      }));
    }
    for (int i = 0; i < 24; ++i) {
      const std::vector<float> got = answers[static_cast<size_t>(i)].get();
      const std::vector<float> alone = Alone(Picture(i, i % 5 == 0 ? 2 : 1));
      ASSERT_EQ(got.size(), alone.size());
      for (size_t k = 0; k < got.size(); ++k) {
        if (exact) {
          EXPECT_EQ(got[k], alone[k]) << i;
        } else {
          EXPECT_NEAR(got[k], alone[k], 1e-3) << i;
        }
      }
    }
  }
}

/// Runs that many requests through a runner at once, and returns how often the graph ran.
int64_t RunsFor(std::shared_ptr<const RuntimeGraph> graph, int requests, GraphOptions options) {
  options.threads = 1;
  options.batch_wait = 200ms;
  std::vector<std::promise<std::vector<Tensor>>> results(static_cast<size_t>(requests));
  GraphRunner runner(std::move(graph), options);
  for (int i = 0; i < requests; ++i) {
    runner.Submit({.inputs = {Picture(i)},
                   .wanted = [] { return true; },
                   .done =
                       [&, i](std::vector<Tensor> outputs, const std::exception_ptr& failure) {
                         EXPECT_FALSE(failure);
                         results[static_cast<size_t>(i)].set_value(std::move(outputs));
                       }});
  }
  for (int i = 0; i < requests; ++i) {
    const std::vector<Tensor> outputs = results[static_cast<size_t>(i)].get_future().get();
    EXPECT_FALSE(outputs.empty());
  }
  return runner.runs();
}

TEST(GraphRunner, JoinsRequestsWhoseRowsAreIndependent) {
  GraphRunner probe(DigitsGraph(), {.threads = 1});
  ASSERT_TRUE(probe.batches());
  EXPECT_GT(probe.bytes(), 0u);
  EXPECT_LT(RunsFor(DigitsGraph(), 16, {}), 16);
  EXPECT_EQ(RunsFor(DigitsGraph(), 4, {.most_batch = 1}), 4);
}

TEST(GraphRunner, RunsAloneWhatMixesItsRows) {
  // The softmax over the first axis makes each row depend on the others.
  const std::string param =
      "7767517\n3 2\n"
      "pnnx.Input in 0 1 0 #0=(1,1,28,28)f32\n"
      "F.softmax soft 1 1 0 1 dim=0 $input=0 #0=(1,1,28,28)f32 #1=(1,1,28,28)f32\n"
      "pnnx.Output out 1 0 1 #1=(1,1,28,28)f32\n";
  const auto graph = RuntimeGraph::Load(*ByteSource::Owned(param), nullptr);
  const GraphRunner runner(graph, {.threads = 1});
  EXPECT_FALSE(runner.batches());
  EXPECT_EQ(RunsFor(graph, 4, {}), 4);
}

TEST(GraphRunner, BoundsWhatARequestTakes) {
  GraphRunner runner(DigitsGraph(), {.threads = 1, .results = 64});
  std::promise<std::exception_ptr> failure;
  runner.Submit({.inputs = {Picture(1, 16)},
                 .wanted = [] { return true; },
                 .done = [&](const std::vector<Tensor>&,
                             const std::exception_ptr& given) { failure.set_value(given); }});
  const std::exception_ptr thrown = failure.get_future().get();
  ASSERT_TRUE(thrown);
  testing::ExpectThrows([&] { std::rethrow_exception(thrown); }, ErrorCode::kLimit, "64 bytes");
  GraphRunner full(DigitsGraph(), {.threads = 1, .most_waiting = 0});
  testing::ExpectThrows([&] { full.Submit({.inputs = {Picture(1)}}); }, ErrorCode::kLimit,
                        "too many");
}

TEST(GraphRunner, BoundsWhatWaits) {
  const size_t bytes = Picture(1).bytes();
  GraphRunner runner(DigitsGraph(), {.threads = 1, .most_batch = 1, .waiting_inputs = 2 * bytes});
  std::promise<void> begun, release;
  std::atomic<int> done = 0;
  const auto submit = [&](std::function<bool()> wanted) {
    runner.Submit({.inputs = {Picture(1)},
                   .wanted = std::move(wanted),
                   .done = [&](const std::vector<Tensor>&, const std::exception_ptr&) { ++done; }});
  };
  submit([&, first = true]() mutable {
    if (std::exchange(first, false)) {
      begun.set_value();
      release.get_future().wait();
    }
    return true;
  });
  begun.get_future().wait();  // it does not wait any more, and those behind it do
  submit([] { return true; });
  submit([] { return true; });
  testing::ExpectThrows([&] { submit([] { return true; }); }, ErrorCode::kLimit, "too many");
  release.set_value();
  while (done < 3) std::this_thread::yield();
  submit([] { return true; });  // there is room again
  while (done < 4) std::this_thread::yield();
}

TEST(GraphRunner, LivesOnWhenSomebodyCannotBeTold) {
  GraphRunner runner(DigitsGraph(), {.threads = 1, .most_batch = 1});
  std::atomic<int> told = 0;
  runner.Submit({.inputs = {Picture(1)},
                 .wanted = [] { return true; },
                 .done =
                     [&](const std::vector<Tensor>& outputs, const std::exception_ptr&) {
                       ++told;
                       if (!outputs.empty()) throw std::bad_alloc();
                     }});
  std::promise<size_t> results;
  runner.Submit({.inputs = {Picture(1)},
                 .wanted = [] { return true; },
                 .done = [&](const std::vector<Tensor>& outputs,
                             const std::exception_ptr&) { results.set_value(outputs.size()); }});
  EXPECT_EQ(results.get_future().get(), 1u);
  EXPECT_EQ(told, 2);  // the result, and then what came of it
}

/// A graph that gives back what it gets.
std::shared_ptr<const RuntimeGraph> Same(const std::string& type) {
  const std::string param = "7767517\n3 2\npnnx.Input in 0 1 0 #0=(4)" + type +
                            "\nTensor.reshape same 1 1 0 1 shape=(4) $input=0 #0=(4)" + type +
                            " #1=(4)" + type + "\npnnx.Output out 1 0 1 #1=(4)" + type + "\n";
  return RuntimeGraph::Load(*ByteSource::Owned(param), nullptr);
}

TEST(V2Tensors, AllTypesComeBackAsTheyWere) {
  const std::vector<std::pair<std::string, std::pair<std::string, Json>>> cases = {
      {"BOOL", {"bool", {true, false, false, true}}},
      {"UINT8", {"u8", {0, 1, 254, 255}}},
      {"INT8", {"i8", {-128, -1, 0, 127}}},
      {"INT16", {"i16", {-32768, -1, 0, 32767}}},
      {"INT32", {"i32", {INT32_MIN, -1, 0, INT32_MAX}}},
      {"INT64", {"i64", {INT64_MIN, -1, 0, INT64_MAX}}},
      {"FP16", {"f16", {-1.5, 0.0, 0.25, 65504.0}}},
      {"BF16", {"bf16", {-1.5, 0.0, 0.25, 65536.0}}},
      {"FP32", {"f32", {-1.5, 0.0, 0.25, 16777216.0}}},
      {"FP64", {"f64", {-1.5, 0.0, 0.1, 1e300}}},
  };
  for (const auto& [name, both] : cases) {
    const auto& [type, data] = both;
    const auto graph = Same(type);
    Session session(graph, {.threads = 1});
    Json request = {
        {"inputs", {{{"name", "in"}, {"datatype", name}, {"shape", {4}}, {"data", data}}}}};
    InferCall call = ParseInferRequest(request.dump(), {}, *graph, {});
    const std::vector<Tensor> outputs = session.Forward(call.inputs);
    const Json answer = Json::parse(WriteInferAnswer(call, outputs, *graph, "same").body);
    EXPECT_EQ(answer["outputs"][0]["datatype"], name);
    EXPECT_EQ(answer["outputs"][0]["data"], data) << name;
    // And as bytes.
    const std::string_view bytes = BytesOf(call.inputs[0]);
    request["inputs"][0].erase("data");
    request["inputs"][0]["parameters"] = {{"binary_data_size", bytes.size()}};
    const std::string head = request.dump();
    const InferCall same = ParseInferRequest(head + std::string(bytes), head.size(), *graph, {});
    EXPECT_EQ(BytesOf(same.inputs[0]), bytes) << name;
  }
}

TEST(V2Tensors, RefusesWhatATypeDoesNotHold) {
  const auto refuse = [](const std::string& name, const std::string& type, const Json& data) {
    const Json request = {
        {"inputs", {{{"name", "in"}, {"datatype", name}, {"shape", {4}}, {"data", data}}}}};
    testing::ExpectThrows([&] { ParseInferRequest(request.dump(), {}, *Same(type), {}); },
                          ErrorCode::kInvalidArgument, "data");
  };
  refuse("UINT8", "u8", {0, 1, 2, 256});
  refuse("UINT8", "u8", {0, 1, 2, -1});
  refuse("INT8", "i8", {0, 1, 2, 128});
  refuse("INT32", "i32", {0, 1, 2, 2147483648});
  refuse("INT64", "i64", {0, 1, 2, 9223372036854775808u});
  refuse("INT64", "i64", {0, 1, 2, 0.5});
  refuse("BOOL", "bool", {true, true, true, 1});
  refuse("FP32", "f32", {0, 1, 2, true});
  refuse("FP32", "f32", {0, 1, 2, nullptr});
}

TEST(V2Tensors, NumbersThatJsonCannotSayAreForBytes) {
  const auto graph = Same("f32");
  InferCall call;
  call.outputs = {{0, false}};
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<Tensor> outputs = {Tensor::From<float>({0, 1, inf, 2}, Shape{4})};
  testing::ExpectThrows([&] { WriteInferAnswer(call, outputs, *graph, "same"); },
                        ErrorCode::kInvalidArgument, "binary");
  call.outputs[0].binary = true;
  const InferAnswer answer = WriteInferAnswer(call, outputs, *graph, "same");
  EXPECT_EQ(answer.body.substr(*answer.json_bytes), BytesOf(outputs[0]));
}

}  // namespace
}  // namespace oort::serve
