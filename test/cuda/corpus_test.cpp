// SPDX-License-Identifier: MIT
// The cases of test/corpus on the GPU: torch's answers, step by step, recorded and replayed.
#include <gtest/gtest.h>

#include <filesystem>

#include "cuda/device.h"
#include "kit/paths.h"
#include "oort/npy.h"
#include "oort/testing.h"

namespace oort {
namespace {

namespace fs = std::filesystem;

std::vector<Tensor> ReadArrays(const fs::path& folder, const std::string& name) {
  std::vector<Tensor> arrays;
  for (;;) {
    const fs::path file = folder / (name + std::to_string(arrays.size()) + ".npy");
    if (!fs::exists(file)) return arrays;
    arrays.push_back(ReadNpy(file));
  }
}

/// Results of 16 bits are rounded in another order than torch's.
testing::Tolerance CorpusTolerance(DType dtype) {
  if (dtype == DType::kF16 || dtype == DType::kBF16) return {2e-2, 2e-2};
  return {2e-4, 2e-3};
}

TEST(CudaCorpus, GivesTorchsAnswers) {
  std::string reason;
  if (cuda::Devices(&reason).empty()) GTEST_SKIP() << reason;
  int ran = 0;
  for (const auto& entry : fs::directory_iterator(TestData() / "corpus")) {
    const fs::path param = entry.path() / "model.pnnx.param";
    const fs::path bin = entry.path() / "model.pnnx.bin";
    if (!fs::exists(param)) continue;
    SCOPED_TRACE(entry.path().filename().string());
    LoadOptions options;
    options.device = Device::Cuda(0);
    const auto graph = RuntimeGraph::Load(param, fs::exists(bin) ? bin : fs::path(), options);
    const std::vector<Tensor> inputs = ReadArrays(entry.path(), "in");
    const std::vector<Tensor> want = ReadArrays(entry.path(), "out");
    if (inputs.size() != graph->inputs().size()) continue;  // pnnx dropped one
    Session session(graph);
    for (int run = 0; run < 3; ++run) {
      const std::vector<Value> got = session.Run({inputs.begin(), inputs.end()});
      for (size_t i = 0; i < got.size() && i < want.size() && got.size() == want.size(); ++i) {
        if (!got[i].IsTensor()) continue;
        testing::ExpectNear(got[i].AsTensor(), want[i], CorpusTolerance(want[i].dtype()));
        ++ran;
      }
    }
  }
  EXPECT_GT(ran, 300);
}

}  // namespace
}  // namespace oort
