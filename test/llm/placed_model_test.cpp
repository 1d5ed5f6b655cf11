// SPDX-License-Identifier: MIT
// Language models of a device that has layers for none of their operators: all runs on the host,
// and so does the cache.
#include <gtest/gtest.h>

#include "cuda/device.h"
#include "kit/errors.h"
#include "kit/paths.h"
#include "llm/decoder_runner.h"
#include "runtime/device_backend.h"

namespace oort {
namespace {

class EmptyDeviceBuffer final : public Buffer {
 public:
  explicit EmptyDeviceBuffer(size_t bytes)
      : Buffer(nullptr, bytes, Device::Cuda(0)), host_(AllocateHost(bytes)) {
    data_ = host_->data();
  }

 private:
  std::shared_ptr<Buffer> host_;
};

struct EmptyDeviceQueue final : DeviceQueue {
  cuda::Stream* stream() override { return nullptr; }
  std::shared_ptr<void> Enter() override { return nullptr; }
  std::shared_ptr<Buffer> Allocate(size_t bytes) override {
    return std::make_shared<EmptyDeviceBuffer>(bytes);
  }
  void Copy(const Tensor& from, Tensor& to) override { CopyElements(from, to); }
  void Synchronize() override {}
  std::unique_ptr<DeviceMark> Mark() override { return nullptr; }
  double Timed(const std::function<void()>& enqueue) override {
    enqueue();
    return 0;
  }
  std::unique_ptr<Recording> Record(const std::function<void()>&) override {
    throw Error(ErrorCode::kUnsupported, "nothing can be recorded here");
  }
};

struct EmptyDeviceBackend final : DeviceBackend {
  Tensor Upload(const Tensor& host) override { return host; }
  std::unique_ptr<DeviceQueue> MakeQueue() override { return std::make_unique<EmptyDeviceQueue>(); }
  int64_t ThreadBytes() override { return 0; }
};

std::vector<float> PlacedLogits(Device device, int ranks = 1) {
  LanguageModelOptions options;
  options.exact = true;
  options.device = device;
  options.ranks.count = ranks;
  options.ranks.exact = true;
  options.ranks.deadline = 120;
  const auto model = LanguageModel::Load(TestData() / "checkpoints" / "qwen3", options);
  DecoderRunner runner(model, KvType::kF32, 32, 1);
  EXPECT_EQ(runner.cache().device(), Device::Cpu());
  CachedSequence sequence;
  const std::vector<int32_t> tokens = {3, 17, 29, 5};
  const StepItem item{&sequence, tokens, StepItem::kAll};
  const std::span<const float> logits = runner.Step({&item, 1});
  std::vector<float> copy(logits.begin(), logits.end());
  const std::vector<int32_t> next = {7};
  const StepItem more{&sequence, next, StepItem::kLast};
  EXPECT_EQ(runner.StepArgmax({&more, 1}).size(), 1u);
  sequence = {};
  return copy;
}

TEST(PlacedModel, TheCacheIsWhereAttentionRuns) {
  if (cuda::BuiltIn()) GTEST_SKIP() << "the layers of CUDA would want a GPU";
  const std::vector<float> want = PlacedLogits(Device::Cpu());
  const BackendOverride backend([](Device) { return std::make_unique<EmptyDeviceBackend>(); });
  EXPECT_EQ(PlacedLogits(Device::Cuda(0)), want);
  EXPECT_EQ(PlacedLogits(Device::Cuda(0), 2), want) << "on two ranks";
}

TEST(PlacedModel, AttentionOnTheHostRefusesACacheElsewhere) {
  const auto model = LanguageModel::Load(TestData() / "checkpoints" / "llama");
  const KvShape shape = model->kv_shape(KvType::kF16);
  KvCache cache(shape, 1, std::make_shared<EmptyDeviceBuffer>(KvCache::Bytes(shape, 1)));
  const std::vector<int32_t> blocks = {0};
  const SequenceSlice slice{0, 1, 0, blocks};
  const SequenceBatch batch{{&slice, 1}, &cache};
  RunOptions run;
  run.state = &batch;
  Session session(model->graph(), {.threads = 1});
  const Tensor zero = Tensor::From<int32_t>({0}, {1});
  testing::ExpectThrows(
      [&] {
        session.Forward({zero, zero, zero}, run);
      },
      ErrorCode::kInvalidArgument, "attention runs on the CPU");
}

}  // namespace
}  // namespace oort
