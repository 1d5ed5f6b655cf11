// SPDX-License-Identifier: MIT
// Fails every single allocation of a load and of a forward, one after the other: each must come
// out as an oort::Error, leave nothing behind, and leave the session usable.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "kit/failing_allocations.h"
#include "kit/paths.h"
#include "kit/sanitized.h"
#include "llm/host_drawer.h"
#include "oort/c.h"
#include "oort/engine.h"
#include "oort/engine_loop.h"
#include "oort/oort.h"
#include "oort/testing.h"

namespace oort {
namespace {

using testing::t_allocations;

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Runs `body` with the n-th allocation failing, for n = 0, 1, … until none fails any more. With a
/// sanitizer every fifth will do: each is tried without, and neighbours fail in the same loops.
template <typename Body>
long FailEachAllocation(Body body) {
  for (long n = 0;; n += testing::CaseStep(5)) {
    t_allocations = {true, n, 0, false};
    bool threw = false, right_error = true;
    try {
      body();
    } catch (const Error& error) {
      threw = true;
      right_error = error.code() == ErrorCode::kOutOfMemory;
    } catch (...) {
      threw = true;
      right_error = false;
    }
    const testing::Allocations state = t_allocations;  // before GoogleTest allocates
    t_allocations.counting = false;
    EXPECT_TRUE(right_error) << "allocation " << n << ": not the error that it should be";
    EXPECT_EQ(state.live, 0) << "allocation " << n << " left memory behind";
    EXPECT_EQ(threw, state.failed) << "allocation " << n;
    if (!state.failed || ::testing::Test::HasFailure()) return n;
  }
}

class AllocationFailure : public ::testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path folder = TestData() / "corpus" / GetParam();
  std::string param = ReadFile(folder / "model.pnnx.param");
  std::string bin = ReadFile(folder / "model.pnnx.bin");
  Tensor input = ReadNpy(folder / "in0.npy");

  std::shared_ptr<const RuntimeGraph> Load() {
    return RuntimeGraph::Load(*ByteSource::Memory(Bytes(param)), ByteSource::Memory(Bytes(bin)));
  }
};

TEST_P(AllocationFailure, InALoadIsAnError) {
  Load();  // fills the registry and other things that stay
  EXPECT_GT(FailEachAllocation([&] { Load(); }), 100);
}

TEST_P(AllocationFailure, InAForwardIsAnErrorAndTheSessionGoesOn) {
  const auto graph = Load();
  const std::vector<Tensor> inputs = {input};
  const std::vector<Tensor> expected = Session(graph, {.threads = 1}).Forward({input});
  EXPECT_GT(FailEachAllocation([&] {
              Session session(graph, {.threads = 1});
              session.Forward(inputs);
            }),
            3);
  Session session(graph, {.threads = 1});
  for (long n = 0;; ++n) {
    t_allocations = {true, n, 0, false};
    try {
      session.Forward(inputs);
    } catch (const Error&) {
    }
    const bool failed = t_allocations.failed;
    t_allocations.counting = false;
    if (!failed) break;
    testing::ExpectNear(session.Forward({input})[0], expected[0]);
  }
}

/// A code of the C interface as the exception that it was. The error is a reference, since
/// arguments are evaluated in any order: the call that gives the code sets it.
void ThrowIfFailed(oort_code code, oort_error*& error) {
  oort_error_free(error);
  if (code == OORT_OK) return;
  throw Error(code == OORT_OUT_OF_MEMORY ? Error::OutOfMemory() : Error(ErrorCode::kInternal, ""));
}

/// What a program in C does, with all of its handles.
struct CProgram {
  oort_options* options = oort_options_new();
  oort_network* network = nullptr;
  oort_session* session = nullptr;
  oort_tensor* input = nullptr;
  oort_tensor* output = nullptr;
  ~CProgram() {
    oort_tensor_free(output);
    oort_tensor_free(input);
    oort_session_free(session);
    oort_network_free(network);
    oort_options_free(options);
  }
  void Run(const std::string& param, const std::string& bin, const Tensor& given) {
    if (options == nullptr) throw Error::OutOfMemory();
    oort_error* error = nullptr;
    ThrowIfFailed(oort_options_set(options, "threads", "1", &error), error);
    ThrowIfFailed(oort_network_load_memory(param.data(), param.size(), bin.data(), bin.size(),
                                           options, &network, &error),
                  error);
    ThrowIfFailed(oort_session_new(network, options, &session, &error), error);
    ThrowIfFailed(oort_tensor_borrow(static_cast<oort_dtype>(given.dtype()), given.rank(),
                                     given.shape().begin(), const_cast<std::byte*>(given.raw()),
                                     given.bytes(), nullptr, nullptr, &input, &error),
                  error);
    ThrowIfFailed(oort_session_run(session, &input, 1, &output, 1, &error), error);
  }
};

/// One network will do: what fails behind the interface is tested above.
class AllocationFailureInC : public AllocationFailure {};

TEST_P(AllocationFailureInC, IsACodeAndLeavesNothing) {
  CProgram().Run(param, bin, input);
  EXPECT_GT(FailEachAllocation([&] { CProgram().Run(param, bin, input); }), 100);
}

INSTANTIATE_TEST_SUITE_P(Networks, AllocationFailure,
                         ::testing::Values("mini_resnet", "mini_vit", "mel_front_end"));
INSTANTIATE_TEST_SUITE_P(Networks, AllocationFailureInC, ::testing::Values("mel_front_end"));

/// Answers that fork, beams that fork and end, and a neighbour: whoever cannot have memory is told
/// so, the others have their answers, and no block is lost.
TEST(AllocationFailureOfAnEngine, EndsOneRequestAndLosesNoBlock) {
  const auto model = LanguageModel::Load(TestData() / "checkpoints" / "llama");
  const auto request_of = [](int64_t n, int64_t beams) {
    GenerateRequest request;
    request.prompt = {3, 17, 29};
    request.max_tokens = 3;
    request.ignore_end = true;
    request.n = n;
    request.beams.width = beams;
    request.sampling.temperature = beams > 0 ? 0.0F : 1.0F;
    return request;
  };
  const std::vector<GenerateRequest> requests = {request_of(3, 0), request_of(1, 0),
                                                 request_of(2, 3)};
  std::vector<GenerateResult> want;
  for (const GenerateRequest& request : requests) {
    want.push_back(Engine(model, {.threads = 1, .cache_tokens = 256}).Generate(request));
  }
  for (long n = 0;; ++n) {
    Engine engine(model, {.threads = 1, .cache_tokens = 256});
    std::vector<int64_t> ids(requests.size(), -1);
    std::vector<GenerateRequest> asked = requests;
    t_allocations = {true, n, 0, false};
    for (size_t i = 0; i < requests.size(); ++i) {
      try {
        ids[i] = engine.Submit(std::move(asked[i]));
      } catch (const Error&) {
      }
    }
    bool more = true;
    for (int steps = 0; more && steps < 100; ++steps) {
      try {
        more = engine.Step();
      } catch (const Error&) {
      }
    }
    const bool failed = t_allocations.failed;
    t_allocations.counting = false;
    ASSERT_FALSE(more) << "allocation " << n << ": the engine does not come to an end";
    size_t right = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      if (ids[i] < 0) continue;
      try {
        const std::optional<GenerateResult> result = engine.Take(ids[i]);
        ASSERT_TRUE(result.has_value());
        EXPECT_EQ(result->tokens, want[i].tokens);
        EXPECT_EQ(result->others.size(), want[i].others.size());
        ++right;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
      }
    }
    EXPECT_GE(right, failed ? requests.size() - 1 : requests.size()) << "allocation " << n;
    EXPECT_EQ(engine.stats().used_blocks, 0) << "allocation " << n;
    EXPECT_EQ(engine.Generate(requests[0]).tokens, want[0].tokens) << "allocation " << n;
    if (!failed || ::testing::Test::HasFailure()) break;
  }
}

/// Where tokens are drawn on a device, whoever is not told of an error has those that were drawn,
/// also where the next step was under way already.
TEST(AllocationFailureOfAnEngine, LeavesNoTokenUndrawn) {
  const auto model = LanguageModel::Load(TestData() / "checkpoints" / "llama");
  GenerateRequest request;
  request.prompt = {3};
  request.max_tokens = 3;
  request.ignore_end = true;
  request.sampling.logit_bias = {{4, 1.0F}};
  const int32_t likeliest = Engine(model, {.threads = 1}).Generate(request).tokens[0];
  request.sampling.temperature = 5;
  request.sampling.seed = 2;
  const std::vector<int32_t> want = Engine(model, {.threads = 1}).Generate(request).tokens;
  ASSERT_NE(want[0], likeliest);
  const HostDrawing drawing;
  for (long n = 0;; ++n) {
    Engine engine(model, {.threads = 1, .cache_tokens = 64});
    const int64_t id = engine.Submit(request);
    t_allocations = {true, n, 0, false};
    bool more = true;
    for (int steps = 0; more && steps < 100; ++steps) {
      try {
        more = engine.Step();
      } catch (const Error&) {
      }
    }
    const bool failed = t_allocations.failed;
    t_allocations.counting = false;
    ASSERT_FALSE(more) << "allocation " << n << ": the engine does not come to an end";
    try {
      EXPECT_EQ(engine.Take(id)->tokens, want) << "allocation " << n;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
      EXPECT_TRUE(failed);
    }
    if (!failed || ::testing::Test::HasFailure()) break;
  }
}

/// Who cancels hears of nothing, and the request ends all the same.
TEST(AllocationFailureOfAnEngine, CancelsAllTheSame) {
  const auto model = LanguageModel::Load(TestData() / "checkpoints" / "llama");
  for (long n = 0;; ++n) {
    Engine engine(model, {.threads = 1, .cache_tokens = 64});
    GenerateRequest request;
    request.prompt = {3, 17, 29};
    request.ignore_end = true;
    request.stops = {std::string(40, 'x')};
    const int64_t id = engine.Submit(std::move(request));
    for (int step = 0; step < 4; ++step) engine.Step();
    t_allocations = {true, n, 0, false};
    engine.Cancel(id);
    const bool failed = t_allocations.failed;
    t_allocations.counting = false;
    EXPECT_FALSE(engine.Step());
    try {
      EXPECT_EQ(engine.Take(id)->finish, FinishReason::kCancelled);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    }
    EXPECT_EQ(engine.stats().used_blocks, 0);
    if (!failed || ::testing::Test::HasFailure()) break;
  }
}

/// The same of a loop, whose thread is the one without memory. Who streams hears each token once.
TEST(AllocationFailureOfAnEngineLoop, EndsOneRequestAtMostAndTheLoopLives) {
  const auto model = LanguageModel::Load(TestData() / "checkpoints" / "llama");
  std::vector<GenerateRequest> requests(3);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = {3, 17, 29 + static_cast<int32_t>(i)};
    requests[i].max_tokens = 4;
    requests[i].ignore_end = true;
  }
  requests[1].n = 2;
  requests[1].sampling.temperature = 1;
  std::vector<GenerateResult> want;
  for (const GenerateRequest& request : requests) {
    want.push_back(Engine(model, {.threads = 1}).Generate(request));
  }
  EngineLoop loop(model, {.engine = {.threads = 1, .cache_tokens = 256, .reuse_prefixes = false}});
  for (long n = 0;; n += testing::CaseStep(5)) {
    std::vector<int32_t> streamed;
    requests[2].on_piece = [&](const GeneratedPiece& piece) {
      const testing::Spared spared;
      streamed.push_back(piece.token);
      return true;
    };
    bool failed = false;
    size_t right = 0;
    {
      const testing::OneOfOthersFails failing(n);
      std::vector<EngineLoop::Request> handles;
      for (const GenerateRequest& request : requests) handles.push_back(loop.Submit(request));
      for (size_t i = 0; i < handles.size(); ++i) {
        try {
          const GenerateResult result = handles[i].Wait();
          EXPECT_EQ(result.tokens, want[i].tokens) << "allocation " << n;
          EXPECT_EQ(result.others.size(), want[i].others.size()) << "allocation " << n;
          if (i == 2) {
            EXPECT_EQ(streamed, result.tokens) << "allocation " << n;
          }
          ++right;
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory) << "allocation " << n;
        }
      }
      failed = failing.failed();
    }
    EXPECT_GE(right, failed ? requests.size() - 1 : requests.size()) << "allocation " << n;
    EXPECT_EQ(loop.stats().used_blocks, 0) << "allocation " << n;
    if (!failed || ::testing::Test::HasFailure()) break;
  }
  EXPECT_TRUE(loop.Drain(std::chrono::seconds(60)));
}

}  // namespace
}  // namespace oort
