// SPDX-License-Identifier: MIT
#include <algorithm>
#include <numeric>

#include "core/checked.h"
#include "core/parallel.h"
#include "cuda/stream.h"
#include "layers/collective/device_exchange.h"

namespace oort {
namespace {

/// The parts of all ranks side by side along the last axis.
class AllGather final : public Layer {
 public:
  explicit AllGather(const LayerInit& init)
      : name_(NameInGroup(init)),
        input_(init.Arg("input")),
        addend_(init.Arg("addend")),
        parts_(init.Ints("parts")),
        on_gpu_(init.device().type != DeviceType::kCpu) {
    if (on_gpu_ && parts_.size() > kMostPartsOnDevice) {
      throw Error(ErrorCode::kUnsupported, "there are more ranks than a GPU has a kernel for");
    }
    for (const int64_t part : parts_) {
      if (part < 1) throw Error(ErrorCode::kInvalidModel, "each of the parts has an element");
      width_ += part;
    }
  }

  LayerTraits Traits() const override {
    return {.either_device = true, .unrecordable = !ExchangesOnDevice()};
  }
  size_t Workspace(const Args& args, int) const override {
    if (!on_gpu_) return 0;
    return CheckedMultiply(static_cast<size_t>(RowsOf(args.tensor(input_)) * width_),
                           sizeof(float));
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& input = args.shape(input_);
    const bool known = input.rank() > 0 && std::ranges::count(parts_, input[input.rank() - 1]) > 0;
    if (!known) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected an input whose last axis is one of the parts, got " + input.ToString());
    }
    Shape shape = input;
    shape[shape.rank() - 1] = width_;
    shape.elements();
    if (args.Has(addend_) && args.shape(addend_) != shape) {
      throw Error(ErrorCode::kInvalidArgument, "expected an addend of " + shape.ToString() +
                                                   ", got " + args.shape(addend_).ToString());
    }
    return {Tensor::Meta(DType::kF32, shape)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Collective& group = GroupOfRun();
    const Tensor& input = args.tensor(input_);
    if (parts_.size() != static_cast<size_t>(group.ranks()) ||
        input.dim(-1) != parts_[static_cast<size_t>(group.rank())]) {
      throw Error(ErrorCode::kInvalidArgument,
                  "its parts are those of " + std::to_string(parts_.size()) + " ranks, not of " +
                      std::to_string(group.ranks()) + ", or those of another rank");
    }
    const int64_t rows = RowsOf(input);
    float* const out = outputs[0].AsTensor().data<float>();
    const float* addend = args.Has(addend_) ? args.tensor(addend_).data<float>() : nullptr;
    if (context.stream() != nullptr) {
      return GatherOnDevice(context, group, input, rows, addend, out);
    }
    Gather(context, group, {input.raw(), input.bytes()}, rows, addend, out);
  }

 private:
  static int64_t RowsOf(const Tensor& input) {
    return input.elements() / std::max<int64_t>(input.dim(-1), 1);
  }
  /// Bytes of each rank.
  std::vector<size_t> SizesOf(int64_t rows) const {
    std::vector<size_t> sizes;
    for (const int64_t part : parts_) {
      sizes.push_back(static_cast<size_t>(rows * part) * sizeof(float));
    }
    return sizes;
  }

  void GatherOnDevice(const Context& context, Collective& group, const Tensor& input, int64_t rows,
                      const float* addend, float* out) const {
    cuda::Stream& stream = *context.stream();
    DeviceGroup* const gpus = group.on_device();
    if (gpus == nullptr) {
      ByWayOfHost(
          group, stream, input, rows * width_,
          [&](std::span<const float> mine, std::span<float> all) {
            Gather(context, group, std::as_bytes(mine), rows, nullptr, all.data());
          },
          out);
      const SumEnd end{.addend = addend};
      if (end.any()) SumOnDevice(stream, {out, 1, 0, 0, rows * width_}, end, out);
      return;
    }
    if (rows == 0) return;
    JoinParts join{.parts = input.data<float>(),
                   .count_of_parts = static_cast<int>(parts_.size()),
                   .rows = rows,
                   .lone = gpus->alone() ? input.dim(-1) : 0};
    std::partial_sum(parts_.begin(), parts_.end(), join.begins + 1);
    if (!gpus->alone()) {
      // One row is as it should be when all parts of it have come.
      float* const all = rows == 1 && addend == nullptr ? out : context.workspace<float>();
      gpus->Gather(name_, input.raw(), SizesOf(rows), all, stream.get());
      if (all == out) return;
      join.parts = all;
    }
    JoinOnDevice(stream, join, addend, out);
  }

  /// In the host's memory.
  void Gather(const Context& context, Collective& group, std::span<const std::byte> mine,
              int64_t rows, const float* addend, float* out) const {
    const std::vector<size_t> sizes = SizesOf(rows);
    int64_t at = 0;
    const auto put = [&](int rank, std::span<const std::byte> bytes) {
      const int64_t part = parts_[static_cast<size_t>(rank)];
      const float* from = reinterpret_cast<const float*>(bytes.data());
      context.ParallelFor(rows, GrainOf({static_cast<double>(part) * 12, 0}),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t row = begin; row < end; ++row) {
                              PutRow(from + row * part, part, row * width_ + at, addend, out);
                            }
                          });
      at += part;
    };
    const size_t all_bytes = static_cast<size_t>(rows * width_) * sizeof(float);
    if (all_bytes >= kBytesToShare && group.Share(name_, mine, [&](auto all) {
          for (size_t rank = 0; rank < sizes.size(); ++rank) {
            if (all[rank].size() != sizes[rank]) {
              throw Error(ErrorCode::kDevice, "rank " + std::to_string(rank) +
                                                  " has a part of another size: they do not "
                                                  "compute the same model");
            }
            put(static_cast<int>(rank), all[rank]);
          }
        })) {
      return;
    }
    group.Exchange(name_, mine, sizes, put);
  }

  static void PutRow(const float* from, int64_t count, int64_t at, const float* addend,
                     float* out) {
    if (addend == nullptr) {
      std::copy_n(from, count, out + at);
      return;
    }
    for (int64_t i = 0; i < count; ++i) out[at + i] = from[i] + addend[at + i];
  }

  std::string name_;
  int input_, addend_;
  std::vector<int64_t> parts_;
  bool on_gpu_;
  int64_t width_ = 0;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(all_gather) {
  using namespace oort;
  OperatorSchema schema({"oort.AllGather"},
                        "The last axis of all ranks side by side, of which each has so many "
                        "elements as parts says, plus addend; one rank's part of a model has it");
  schema.Tensor("input", kF32Only).OptionalTensor("addend", kF32Only).Ints("parts");
  registry.Add(schema, Create<AllGather>());
}

OORT_CUDA_LAYERS(all_gather) { registry.AddDevice({"oort.AllGather"}, DeviceType::kCuda); }
