// SPDX-License-Identifier: MIT
// Fails single allocations of the server's threads, one after the other: one request at most hears
// of it, and the server goes on.
#include <array>
#include <future>

#include "kit/failing_allocations.h"
#include "kit/paths.h"
#include "kit/sanitized.h"
#include "oort/npy.h"
#include "openai/embeddings.h"
#include "openai/request_error.h"
#include "openai/rerank.h"
#include "serve/answer_format.h"
#include "serve/anthropic.h"
#include "serve/generate_job.h"
#include "serve/responses.h"
#include "serve/served_model.h"

// LeakSanitizer asks for this. A JSON value made of a list loses what it has begun where an element
// finds no memory: nlohmann's constructor has no owner for it.
extern "C" const char* __lsan_default_suppressions();   // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __lsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "leak:basic_json(std::initializer_list<";
}

namespace oort::serve {
namespace {

using testing::OneOfOthersFails;

std::shared_ptr<const RuntimeGraph> DigitsGraph() {
  const std::filesystem::path folder = SourceTree() / "models/digits";
  static const auto graph =
      RuntimeGraph::Load(folder / "digits.pnnx.param", folder / "digits.pnnx.bin");
  return graph;
}

Tensor Picture(int number) {
  Tensor tensor(DType::kF32, Shape{1, 1, 28, 28});
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    tensor.data<float>()[i] = static_cast<float>((i * (number + 3) * 7919) % 256) / 256;
  }
  return tensor;
}

TEST(AllocationFailureOfAGraphRunner, EndsOneRequestAtMostAndTheRunnerLives) {
  GraphRunner runner(DigitsGraph(), {.threads = 1});
  ASSERT_TRUE(runner.batches());
  std::vector<std::vector<float>> want;
  for (int i = 0; i < 3; ++i) {
    const Tensor output = Session(DigitsGraph(), {.threads = 1}).Forward({Picture(i)}).at(0);
    want.emplace_back(output.span<float>().begin(), output.span<float>().end());
  }
  long n = 0;
  for (bool failed = true; failed && !::testing::Test::HasFailure(); n += testing::CaseStep(3)) {
    size_t right = 0;
    {
      const OneOfOthersFails failing(n);
      std::array<std::promise<std::vector<float>>, 3> told;
      for (int i = 0; i < 3; ++i) {
        auto& own = told[static_cast<size_t>(i)];
        runner.Submit(
            {.inputs = {Picture(i)},
             .wanted = [] { return true; },
             .done =
                 [&own](const std::vector<Tensor>& outputs, const std::exception_ptr& failure) {
                   const testing::Spared spared;
                   if (failure) return own.set_exception(failure);
                   const auto values = outputs.at(0).span<float>();
                   own.set_value({values.begin(), values.end()});
                 }});
      }
      for (size_t i = 0; i < told.size(); ++i) {
        try {
          const std::vector<float> got = told[i].get_future().get();
          ASSERT_EQ(got.size(), want[i].size());
          for (size_t k = 0; k < got.size(); ++k) EXPECT_NEAR(got[k], want[i][k], 1e-4);
          ++right;
        } catch (const std::bad_alloc&) {
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory) << "allocation " << n;
        }
      }
      failed = failing.failed();
    }
    EXPECT_GE(right, failed ? 2u : 3u) << "allocation " << n;
  }
  EXPECT_GT(n, 3);
}

/// A request of one of the APIs, and what reads it.
struct Reading {
  const char* name;
  const char* body;
  void (*read)(const openai::Json& body, const openai::ServedModel& served);
};

void ReadChat(const openai::Json& body, const openai::ServedModel& served) {
  openai::ParseChatRequest(body, served);
}

const Reading kReadings[] = {
    {"Chat",
     R"({"messages": [{"role": "assistant", "content": "I tell stories and hide no fox in them."},
         {"role": "user", "content": [{"type": "text", "text": "Tell me a story about a fox."}]}],
         "stop": ["the end of the story", "."], "logit_bias": {"17": 3, "18": -4},
         "metadata": {"of": [[[["nobody", {"in": {"particular": [1, 2.5, true, null]}}]]]]}})",
     ReadChat},
    {"Tools",
     R"({"messages": [{"role": "user", "content": "What is the weather like in Rome, and why?"},
         {"role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function",
           "function": {"name": "weather_of_a_city", "arguments": "{\"city\": [[\"Rome\"]]}"}}]},
         {"role": "tool", "tool_call_id": "call_1", "content": "rain"}], "tool_choice": "required",
         "tools": [{"type": "function", "function": {"name": "weather_of_a_city", "parameters":
           {"type": "object", "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}},
            "required": ["city"]}}}]})",
     ReadChat},
    {"Schema",
     R"({"messages": [{"role": "user", "content": "Who?"}], "response_format": {"type": "json_schema",
         "json_schema": {"name": "n", "schema": {"type": "object", "additionalProperties": false,
           "properties": {"name_of_the_one_who_did_it": {"type": "string", "maxLength": 9},
             "ages": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}},
           "required": ["name_of_the_one_who_did_it"]}}}})",
     ReadChat},
    {"Completions",
     R"({"prompt": ["Once upon a time", "there was a fox that nobody had ever seen"], "n": 2,
         "max_tokens": 4, "regex": "(fox|dog) [a-z]{3,9}"})",
     [](const openai::Json& body, const openai::ServedModel& served) {
       openai::ParseCompletionsRequest(body, served);
     }},
    {"Embeddings", R"({"input": ["the comet is very, very far away", "a zebra that is not"]})",
     [](const openai::Json& body, const openai::ServedModel&) {
       openai::ParseEmbeddingsRequest(body, "encoder", {}, true, 384);
     }},
    {"Rerank", R"({"query": "how far is the comet by now", "documents": ["a zebra",
         {"text": "the comet is farther away than all of the zebras"}]})",
     [](const openai::Json& body, const openai::ServedModel&) {
       openai::ParseRerankRequest(body, "reranker", {}, true);
     }},
    {"Anthropic",
     R"({"max_tokens": 9, "stop_sequences": ["the end of the story"],
         "messages": [{"role": "user", "content": [{"type": "text", "text": "Who was the fox?"}]}],
         "tools": [{"name": "weather_of_a_city", "input_schema": {"type": "object",
           "properties": {"city": {"type": "string"}}}}]})",
     [](const openai::Json& body, const openai::ServedModel& served) {
       openai::Fields fields(body);
       ReadChat(FromAnthropic(fields), served);
     }},
    {"Responses",
     R"({"metadata": {"of": [["nobody in particular"]]}, "max_output_tokens": 9, "input": [
         {"role": "user", "content": [{"type": "input_text", "text": "Who was the fox?"}]}]})",
     [](const openai::Json& body, const openai::ServedModel& served) {
       openai::Fields fields(body);
       openai::Json told;
       openai::FieldNames names;
       ReadChat(FromResponses(fields, told, names), served);
     }},
};

class AllocationFailureOfARequest : public ::testing::TestWithParam<Reading> {};

/// Not one allocation alone: memory that is gone stays away while all that was begun is undone.
TEST_P(AllocationFailureOfARequest, IsAnErrorOfThatRequest) {
  openai::ServedModel served;
  served.model = Storyteller();
  served.name = "storyteller";
  const auto read = [&] { GetParam().read(openai::ParseBody(GetParam().body), served); };
  long n = 0;
  for (bool failed = true; failed && !::testing::Test::HasFailure(); n += testing::CaseStep(7)) {
    std::exception_ptr failure;
    testing::t_allocations = {true, n, 0, false, true};
    try {
      read();
    } catch (...) {
      failure = std::current_exception();
    }
    failed = testing::t_allocations.failed;
    testing::t_allocations.counting = false;
    if (failure) {
      EXPECT_TRUE(failed) << openai::ApiErrorOf(failure).message;
      EXPECT_EQ(openai::ApiErrorOf(failure).status, 503) << "allocation " << n;
    }
  }
  EXPECT_GT(n, 20);
  read();
}

INSTANTIATE_TEST_SUITE_P(Apis, AllocationFailureOfARequest, ::testing::ValuesIn(kReadings),
                         [](const auto& reading) { return reading.param.name; });

/// A server that answers one request of its own, whose parts are known.
class OwnServer {
 public:
  OwnServer() { model_.model = Storyteller(); }

  uint16_t port() const { return server_.port(); }
  int64_t used_blocks() const { return loop_.stats().used_blocks; }

 private:
  void Handle(const http::Request& request, const http::Reply& reply) {
    Context context{.reply = reply, .id = "own"};
    const bool stream = request.path == "/stream";
    const bool taken = workers_.Push([this, context, stream] {
      try {
        Answer(context, stream);
      } catch (...) {
        context.SendError(context.ErrorOf(std::current_exception()));
      }
    });
    if (!taken) context.SendError(QueueFull("full"));
  }
  void Answer(const Context& context, bool stream) {
    openai::GenerateCall call;
    call.endpoint = openai::Endpoint::kCompletions;
    call.stream = stream;
    GenerateRequest wanted;
    wanted.prompt = {5, 6, 7};
    wanted.max_tokens = 6;
    wanted.ignore_end = true;
    wanted.sampling.temperature = 0;
    call.requests = {std::move(wanted)};
    call.prompts.resize(1);
    const auto job = std::make_shared<GenerateJob>(
        services_, context, std::move(call),
        [this](const openai::GenerateCall& kept) { return OpenAiFormat(kept, model_); });
    job->Begin();
  }

  openai::ServedModel model_;
  Metrics metrics_{512};
  std::atomic<bool> draining_ = false;
  EngineLoop loop_{Storyteller(), {.engine = {.threads = 1, .reuse_prefixes = false}}};
  Workers workers_{2, size_t{1} << 20};
  ModelPool pool_{{}, {}};
  Services services_{.served = {},
                     .loop = &loop_,
                     .metrics = metrics_,
                     .limits = {},
                     .workers = workers_,
                     .pool = pool_,
                     .draining = draining_};
  http::Server server_{{.handle = [this](const http::Request& request, const http::Reply& reply) {
    Handle(request, reply);
  }}};
};

std::string TextOf(const Answer& answer) {
  if (!answer.Has("text/event-stream")) {
    return Json::parse(answer.body)["choices"][0]["text"].get<std::string>();
  }
  std::string said;  // how many tokens an event has depends on who was faster
  for (const std::string& event : Events(answer.body)) {
    if (event != "[DONE]") said += Json::parse(event)["choices"][0]["text"].get<std::string>();
  }
  return said;
}

/// From the first byte of a connection to the last one of its answer.
TEST(AllocationFailureOfAServer, EndsOneRequestAtMostAndTheServerLives) {
  OwnServer server;
  const std::vector<std::string> paths = {"/whole", "/stream", "/stream"};
  const auto ask = [&] {
    std::vector<RawClient> clients;
    for (const std::string& path : paths) {
      clients.emplace_back(server.port());
      clients.back().Send("POST " + path +
                          " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}");
    }
    std::vector<Answer> answers;
    for (RawClient& client : clients) answers.push_back(client.ReceiveAnswer());
    return answers;
  };
  const std::string want = TextOf(ask()[0]);
  EXPECT_FALSE(want.empty());
  // What was lost shows at the next tick of 100 ms, which makes each turn long; neighbours fail in
  // the same functions.
  const long step = 7 * testing::CaseStep(5);
  long n = 0;
  for (bool failed = true; failed && !::testing::Test::HasFailure(); n += step) {
    std::vector<Answer> answers;
    {
      const OneOfOthersFails failing(n);
      answers = ask();
      failed = failing.failed();
    }
    size_t right = 0;
    for (const Answer& answer : answers) {
      // A stream that fails says so in an event, or is cut.
      const bool broken = !answer.whole || answer.body.find("\"error\"") != std::string::npos;
      if (answer.status != 200 || broken) continue;
      EXPECT_EQ(TextOf(answer), want) << "allocation " << n;
      ++right;
    }
    EXPECT_GE(right, paths.size() - (failed ? 1 : 0)) << "allocation " << n;
  }
  EXPECT_GT(n, 100);
  for (const Answer& answer : ask()) EXPECT_EQ(TextOf(answer), want);
  EXPECT_TRUE(Eventually([&] { return server.used_blocks() == 0; }));
}

}  // namespace
}  // namespace oort::serve
