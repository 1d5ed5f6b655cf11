// SPDX-License-Identifier: MIT
// A device whose memory is the host's, which tells what happens on it.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "oort/session.h"
#include "runtime/device_backend.h"
#include "runtime/test_layers.h"

namespace oort {

/// What happened on the device.
struct DeviceLog {
  int copies_to = 0, copies_from = 0, waits = 0, recordings = 0, launches = 0, uploads = 0;
  bool refuse_recordings = false;
};

class FakeDeviceBuffer final : public Buffer {
 public:
  explicit FakeDeviceBuffer(size_t bytes)
      : Buffer(nullptr, bytes, Device::Cuda(0)), host_(AllocateHost(bytes)) {
    data_ = host_->data();
  }

 private:
  std::shared_ptr<Buffer> host_;
};

struct FakeRecording final : Recording {
  FakeRecording(DeviceLog& to, std::function<void()> what) : log(to), work(std::move(what)) {}
  void Launch() override {
    ++log.launches;
    work();
  }
  DeviceLog& log;
  std::function<void()> work;
};

class FakeQueue final : public DeviceQueue {
 public:
  explicit FakeQueue(DeviceLog& log) : log_(log) {}
  cuda::Stream* stream() override { return nullptr; }
  std::shared_ptr<void> Enter() override { return nullptr; }
  std::shared_ptr<Buffer> Allocate(size_t bytes) override {
    return std::make_shared<FakeDeviceBuffer>(bytes);
  }
  /// Copies to the host are done when somebody waits for them, as late as a device may.
  void Copy(const Tensor& from, Tensor& to) override {
    const bool to_host = to.device() == Device::Cpu();
    ++(to_host ? log_.copies_from : log_.copies_to);
    if (to_host) std::memset(to.raw(), 0xff, to.bytes());
    auto copy = [from, to]() mutable { std::memcpy(to.raw(), from.raw(), from.bytes()); };
    if (to_host) {
      late_.emplace_back(copy);
    } else {
      copy();
    }
  }
  void Synchronize() override {
    ++log_.waits;
    for (const std::function<void()>& copy : late_) copy();
    late_.clear();
  }
  std::unique_ptr<DeviceMark> Mark() override {
    struct FakeMark final : DeviceMark {
      explicit FakeMark(FakeQueue& of) : queue(of) {}
      void Wait() override { queue.Synchronize(); }
      FakeQueue& queue;
    };
    return std::make_unique<FakeMark>(*this);
  }
  double Timed(const std::function<void()>& enqueue) override {
    enqueue();
    Synchronize();
    return 0.25;
  }
  std::unique_ptr<Recording> Record(const std::function<void()>& enqueue) override {
    if (log_.refuse_recordings) throw Error(ErrorCode::kDevice, "cannot be recorded");
    ++log_.recordings;
    return std::make_unique<FakeRecording>(log_, enqueue);
  }

 private:
  DeviceLog& log_;
  std::vector<std::function<void()>> late_;
};

class FakeBackend final : public DeviceBackend {
 public:
  explicit FakeBackend(DeviceLog& log) : log_(log) {}
  Tensor Upload(const Tensor& host) override {
    ++log_.uploads;
    Tensor copy(host.dtype(), host.shape(), std::make_shared<FakeDeviceBuffer>(host.bytes()));
    std::memcpy(copy.raw(), host.raw(), host.bytes());
    return copy;
  }
  std::unique_ptr<DeviceQueue> MakeQueue() override { return std::make_unique<FakeQueue>(log_); }
  int64_t ThreadBytes() override { return 0; }

 private:
  DeviceLog& log_;
};

/// A layer of the host that insists on getting and giving tensors of the device.
template <typename L>
class OnFakeDevice final : public Layer {
 public:
  std::vector<Value> Infer(const Args& args) const override { return layer_.Infer(args); }
  std::vector<Reuse> Reuses(const Args& args) const override { return layer_.Reuses(args); }
  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    for (const Value* input : args.inputs()) {
      EXPECT_TRUE(!input->IsTensor() || input->AsTensor().device() == Device::Cuda(0));
    }
    for (const Value& output : outputs) {
      EXPECT_TRUE(!output.IsTensor() || output.AsTensor().device() == Device::Cuda(0));
    }
    layer_.Forward(context, args, outputs);
  }

 private:
  L layer_;
};

/// x + 1 by a layer of the host that says this about itself.
class AddOneWithTraits final : public Layer {
 public:
  explicit AddOneWithTraits(LayerTraits traits) : traits_(traits) {}
  LayerTraits Traits() const override { return traits_; }
  std::vector<Value> Infer(const Args& args) const override { return layer_.Infer(args); }
  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    layer_.Forward(context, args, outputs);
  }

 private:
  LayerTraits traits_;
  AddOne layer_;
};

class PlacementTest : public ::testing::Test {
 protected:
  PlacementTest()
      : registry_(TestRegistry()),
        override_([this](Device) { return std::make_unique<FakeBackend>(log_); }) {
    Place<AddOne>("test.add_one");
    Place<Flat>("test.flat");
    Place<SumAndDifference>("test.sum2");
  }
  template <typename L>
  void Place(const char* type) {
    registry_.AddDevice({type}, DeviceType::kCuda,
                        [](const LayerInit&) { return std::make_unique<OnFakeDevice<L>>(); });
  }
  /// Declares an operator of x + 1.
  void Declare(const char* type, LayerTraits traits) {
    OperatorSchema schema({type}, "for tests");
    schema.Tensor("input", kF32Only);
    registry_.Add(std::move(schema), [traits](const LayerInit&) {
      return std::make_unique<AddOneWithTraits>(traits);
    });
  }
  /// What runs where if a graph is one operator of this type.
  std::string PlannedAlone(const std::string& type) {
    return PlannedTypes(*Build("pnnx.Input pnnx_input_0 0 1 x\n" + type +
                               " a 1 1 x 1\npnnx.Output pnnx_output_0 1 0 1\n"));
  }
  std::shared_ptr<const RuntimeGraph> Build(const std::string& lines) {
    LoadOptions options;
    options.registry = &registry_;
    options.device = Device::Cuda(0);
    options.disabled_passes = {"all"};
    return RuntimeGraph::Build(GraphFromText(lines), options);
  }
  static std::string PlannedTypes(const RuntimeGraph& graph) {
    std::string types;
    for (const NodeReport& node : graph.Plan({Tensor::Meta(DType::kF32, {3})}).nodes) {
      types += (types.empty() ? "" : " ") + node.type + (node.device == Device::Cpu() ? "" : "*");
    }
    return types;
  }

  DeviceLog log_;
  LayerRegistry registry_;
  BackendOverride override_;
};

}  // namespace oort
