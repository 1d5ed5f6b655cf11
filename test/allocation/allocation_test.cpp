// SPDX-License-Identifier: MIT
// Counts what a Forward allocates once its plan is made: nothing, if the results have a place.
// A program of its own, since it replaces malloc.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "core/exact_buffers.h"
#include "kit/paths.h"
#include "oort/oort.h"
#include "oort/testing.h"

#if defined(__SANITIZE_THREAD__)
#define OORT_OTHER_MALLOC
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define OORT_OTHER_MALLOC
#endif
#endif

namespace {
std::atomic<bool> g_counting{false};
std::atomic<long> g_allocations{0};
}  // namespace

#if defined(__GLIBC__) && !defined(OORT_EXACT_BUFFERS) && !defined(OORT_OTHER_MALLOC)
#define OORT_COUNTS

namespace {
void Count() {
  if (g_counting.load(std::memory_order_relaxed)) ++g_allocations;
}
}  // namespace

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  Count();
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  Count();
  return __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) {
  Count();
  return __libc_realloc(memory, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  Count();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, size_t alignment, size_t size) {
  Count();
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
}
#endif

namespace oort {
namespace {

/// Allocations of all threads while `body` runs.
template <typename Body>
long AllocationsOf(const Body& body) {
  g_allocations = 0;
  g_counting = true;
  body();
  g_counting = false;
  return g_allocations;
}

/// The least of a few rounds. A thread that the system lets run late, for the first time behind
/// others, allocates what it keeps for itself then.
template <typename Body>
long SteadyAllocationsOf(long most, const Body& body) {
  long least = AllocationsOf(body);
  for (int i = 0; i < 20 && least > most; ++i) least = std::min(least, AllocationsOf(body));
  return least;
}

TEST(Allocations, AreSeen) {
#ifndef OORT_COUNTS
  GTEST_SKIP() << "malloc belongs to somebody else here";
#endif
  std::unique_ptr<int> kept;
  EXPECT_EQ(AllocationsOf([&] { kept = std::make_unique<int>(1); }), 1);
}

struct Model {
  const char* folder;
  int threads;
};

class SteadyForward : public ::testing::TestWithParam<Model> {
 protected:
  void SetUp() override {
#ifndef OORT_COUNTS
    GTEST_SKIP() << "malloc belongs to somebody else here";
#endif
    const std::filesystem::path folder = SourceTree() / GetParam().folder;
    std::filesystem::path param;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".param") param = entry.path();
    }
    std::filesystem::path bin = param;
    graph_ = RuntimeGraph::Load(param, bin.replace_extension(".bin"));
    for (const Port& port : graph_->inputs()) {
      inputs_.push_back(testing::RandomTensor(port.dtype, port.shape, 1));
    }
  }
  std::shared_ptr<const RuntimeGraph> graph_;
  std::vector<Tensor> inputs_;
};

TEST_P(SteadyForward, AllocatesNothing) {
  Session session(graph_, {.threads = GetParam().threads});
  std::vector<Tensor> outputs = session.Forward(inputs_);
  session.ForwardInto(inputs_, outputs);
  const long allocations = SteadyAllocationsOf(0, [&] {
    for (int i = 0; i < 3; ++i) session.ForwardInto(inputs_, outputs);
  });
  EXPECT_EQ(allocations, 0);
}

/// The lists of inputs and results (twice each: as values and as tensors), and two blocks for each
/// result: its elements and who owns them.
TEST_P(SteadyForward, OrOnlyTheResults) {
  Session session(graph_, {.threads = GetParam().threads});
  const size_t results = session.Forward(inputs_).size();
  session.Forward(inputs_);
  const long most = 4 + 3 * static_cast<long>(results);
  EXPECT_LE(SteadyAllocationsOf(most, [&] { session.Forward(inputs_); }), most);
}

INSTANTIATE_TEST_SUITE_P(
    Models, SteadyForward,
    ::testing::Values(
        Model{"models/digits", 1}, Model{"models/digits", 2}, Model{"test/corpus/mini_resnet", 1},
        Model{"test/corpus/mini_resnet", 2}, Model{"test/corpus/mini_mobilenet", 1},
        Model{"test/corpus/mini_mobilenet", 2}, Model{"test/corpus/mini_densenet", 1},
        Model{"test/corpus/mini_densenet", 2}, Model{"test/corpus/mini_googlenet", 1},
        Model{"test/corpus/mini_googlenet", 2}, Model{"test/corpus/mini_shufflenet", 1},
        Model{"test/corpus/mini_shufflenet", 2}, Model{"test/corpus/mini_squeezenet", 1},
        Model{"test/corpus/mini_squeezenet", 2}, Model{"test/corpus/mini_vit", 1},
        Model{"test/corpus/mini_vit", 2}),
    [](const auto& tested) {
      const std::string folder = tested.param.folder;
      return folder.substr(folder.rfind('/') + 1) + "_" + std::to_string(tested.param.threads);
    });

}  // namespace
}  // namespace oort
