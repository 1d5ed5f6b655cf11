// SPDX-License-Identifier: MIT
// Fails every single allocation of a load and of a forward, one after the other: each must come
// out as an oort::Error, leave nothing behind, and leave the session usable.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <new>
#include <sstream>

#include "kit/paths.h"
#include "kit/sanitized.h"
#include "oort/c.h"
#include "oort/engine.h"
#include "oort/oort.h"
#include "oort/testing.h"

namespace {

struct Allocations {
  bool counting = false;
  long until_failure = -1;  // negative: never fail
  long live = 0;
  bool failed = false;
};
thread_local Allocations t_allocations;

void* Allocate(std::size_t size, std::size_t alignment) {
  Allocations& state = t_allocations;
  if (state.counting && state.until_failure >= 0 && state.until_failure-- == 0) {
    state.failed = true;
    return nullptr;
  }
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment < sizeof(void*) ? sizeof(void*) : alignment,
                     size == 0 ? 1 : size) != 0) {
    return nullptr;
  }
  if (state.counting) ++state.live;
  return memory;
}

void* AllocateOrThrow(std::size_t size, std::size_t alignment) {
  void* memory = Allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void Free(void* memory) noexcept {
  if (memory == nullptr) return;
  if (t_allocations.counting) --t_allocations.live;
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return AllocateOrThrow(size, alignof(std::max_align_t)); }
void* operator new[](std::size_t size) { return AllocateOrThrow(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t align) {
  return AllocateOrThrow(size, static_cast<std::size_t>(align));
}
void* operator new[](std::size_t size, std::align_val_t align) {
  return AllocateOrThrow(size, static_cast<std::size_t>(align));
}
// The standard library asks for sorting buffers this way and goes on without them: never fails.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  const long until_failure = t_allocations.until_failure;
  t_allocations.until_failure = -1;
  void* memory = Allocate(size, alignof(std::max_align_t));
  t_allocations.until_failure = until_failure;
  return memory;
}
void* operator new(std::size_t size, std::align_val_t align, const std::nothrow_t&) noexcept {
  return Allocate(size, static_cast<std::size_t>(align));
}
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete[](void* memory) noexcept { Free(memory); }
void operator delete(void* memory, std::size_t) noexcept { Free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { Free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { Free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { Free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { Free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { Free(memory); }

namespace oort {
namespace {

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
    const Allocations state = t_allocations;  // before GoogleTest allocates
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

}  // namespace
}  // namespace oort
