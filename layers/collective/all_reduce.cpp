// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <string>

#include "core/parallel.h"
#include "cuda/memory.h"
#include "layers/collective/device_exchange.h"

namespace oort {
namespace {

/// Sums of what all ranks have, added in the order of the ranks by each of them.
class AllReduce final : public Layer {
 public:
  explicit AllReduce(const LayerInit& init)
      : name_(NameInGroup(init)),
        input_(init.Arg("input")),
        addend_(init.Arg("addend")),
        bias_(init.Weight("bias")),
        bias_argument_(init.Arg("bias")),
        ranks_(init.Int("ranks")),
        on_gpu_(init.device().type != DeviceType::kCpu) {
    if (!on_gpu_) return;
    if (ranks_ < 1) {
      throw Error(ErrorCode::kUnsupported, "on a GPU it has to know of how many ranks it adds");
    }
    if (bias_.defined()) bias_ = cuda::ToDevice(bias_, init.device());
  }

  LayerTraits Traits() const override {
    return {.either_device = true, .unrecordable = !ExchangesOnDevice()};
  }
  bool Packs(int argument) const override {
    return on_gpu_ && bias_.defined() && argument == bias_argument_;
  }
  size_t Workspace(const Args& args, int) const override {
    return on_gpu_ ? ScratchOfSum(args.tensor(input_).elements(), ranks_) : 0;
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& input = args.tensor(input_);
    if (args.Has(addend_) && args.shape(addend_) != input.shape()) {
      throw Error(ErrorCode::kInvalidArgument, "expected an addend of " + input.ToString() +
                                                   ", got " + args.tensor(addend_).ToString());
    }
    if (bias_.defined() && (input.rank() == 0 || bias_.shape() != Shape{input.dim(-1)})) {
      throw Error(ErrorCode::kInvalidArgument,
                  "a bias of " + bias_.ToString() + " does not fit " + input.ToString());
    }
    return {Tensor::Meta(DType::kF32, input.shape())};
  }

  std::vector<Reuse> Reuses(const Args&) const override {
    if (EachAddsAll()) return {};
    return {{Reuse::kInPlace, input_, 0, 0}};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Collective& group = GroupOfRun();
    if (ranks_ > 0 && ranks_ != group.ranks()) {
      throw Error(ErrorCode::kInvalidArgument, "it adds what " + std::to_string(ranks_) +
                                                   " ranks have, and there are " +
                                                   std::to_string(group.ranks()));
    }
    const Tensor& input = args.tensor(input_);
    float* const out = outputs[0].AsTensor().data<float>();
    const SumEnd end{bias_.defined() ? bias_.data<float>() : nullptr,
                     std::max<int64_t>(input.rank() > 0 ? input.dim(-1) : 1, 1),
                     args.Has(addend_) ? args.tensor(addend_).data<float>() : nullptr};
    if (context.stream() != nullptr) return ReduceOnDevice(context, group, input, end, out);
    Reduce(context, group, {input.data<float>(), static_cast<size_t>(input.elements())}, end, out);
  }

 private:
  using Parts = std::span<const std::span<const std::byte>>;

  void ReduceOnDevice(const Context& context, Collective& group, const Tensor& input,
                      const SumEnd& end, float* out) const {
    cuda::Stream& stream = *context.stream();
    const int64_t count = input.elements();
    if (DeviceGroup* const gpus = group.on_device()) {
      return SumOverRanks(group, *gpus, name_, stream, input.data<float>(), count, end,
                          context.workspace<float>(), out);
    }
    ByWayOfHost(
        group, stream, input, count,
        [&](std::span<const float> mine, std::span<float> sums) {
          Reduce(context, group, mine, {}, sums.data());
        },
        out);
    if (end.any()) SumOnDevice(stream, {out, 1, 0, 0, count}, end, out);
  }

  /// In the host's memory.
  void Reduce(const Context& context, Collective& group, std::span<const float> mine,
              const SumEnd& end, float* out) const {
    if (mine.size_bytes() >= kBytesToShare && SumShared(context, group, mine, end, out)) return;
    const int64_t count = static_cast<int64_t>(mine.size());
    const int64_t grain = GrainOf({12, 1});
    const std::vector<size_t> sizes(static_cast<size_t>(group.ranks()), mine.size_bytes());
    group.Exchange(name_, std::as_bytes(mine), sizes,
                   [&](int rank, std::span<const std::byte> bytes) {
                     const float* numbers = reinterpret_cast<const float*>(bytes.data());
                     context.ParallelFor(count, grain, [&](int64_t begin, int64_t until) {
                       if (rank == 0) {
                         std::copy(numbers + begin, numbers + until, out + begin);
                         return;
                       }
                       for (int64_t i = begin; i < until; ++i) out[i] += numbers[i];
                     });
                   });
    if (!end.any()) return;
    context.ParallelFor(count, GrainOf({12, 2}),
                        [&](int64_t begin, int64_t until) { Finish(end, out, begin, until); });
  }

  /// Two ranks read as much of each other's whether they share the sum out or not, and wait for
  /// each other half as often if each adds up all. Then the result may not lie on what the other
  /// reads.
  bool EachAddsAll() const { return !on_gpu_ && ranks_ == 2; }

  /// Adds where the numbers lie. Nobody writes what another one reads: results may lie on inputs,
  /// unless each rank adds up all.
  bool SumShared(const Context& context, Collective& group, std::span<const float> given,
                 const SumEnd& end, float* out) const {
    const int64_t count = static_cast<int64_t>(given.size()), ranks = group.ranks();
    const bool all_of_it = EachAddsAll();
    const int64_t first = all_of_it ? 0 : count * group.rank() / ranks;
    const int64_t last = all_of_it ? count : count * (group.rank() + 1) / ranks;
    const auto add = [&](Parts all) {
      for (const auto& part : all) CheckPart(part.size(), given.size_bytes());
      context.ParallelFor(last - first, GrainOf({8.0 * static_cast<double>(ranks), 2}),
                          [&](int64_t begin, int64_t until) {
                            AddParts(all, end, out, first + begin, first + until);
                          });
    };
    if (!group.Share(name_, std::as_bytes(given), add)) return false;
    return all_of_it || TakeParts(context, group, {out, static_cast<size_t>(count)});
  }

  /// Each rank has its part of the sums, and takes the other parts from those who made them.
  bool TakeParts(const Context& context, Collective& group, std::span<float> out) const {
    const int64_t count = static_cast<int64_t>(out.size()), ranks = group.ranks();
    const auto take = [&](Parts all) {
      for (int64_t rank = 0; rank < ranks; ++rank) {
        if (rank == group.rank()) continue;
        const int64_t from = count * rank / ranks, until = count * (rank + 1) / ranks;
        const auto* numbers = reinterpret_cast<const float*>(all[static_cast<size_t>(rank)].data());
        context.ParallelFor(until - from, GrainOf({8, 0}), [&](int64_t begin, int64_t last_one) {
          std::copy(numbers + from + begin, numbers + from + last_one, out.data() + from + begin);
        });
      }
    };
    return group.Share(name_, std::as_bytes(out), take);
  }

  static void CheckPart(size_t bytes, size_t expected) {
    if (bytes == expected) return;
    throw Error(ErrorCode::kDevice, "a rank has " + std::to_string(bytes) + " bytes of " +
                                        std::to_string(expected) +
                                        ": they do not compute the same model");
  }

  /// Pieces stay in the first cache while the numbers of one rank after the other are added. What
  /// is read may lie where the sums go.
  static void AddParts(Parts all, const SumEnd& end, float* out, int64_t begin, int64_t last) {
    constexpr int64_t kPiece = 1024;
    const auto numbers_of = [&](size_t rank, int64_t at) {
      return reinterpret_cast<const float*>(all[rank].data()) + at;
    };
    for (int64_t at = begin; at < last; at += kPiece) {
      const int64_t count = std::min(kPiece, last - at);
      float sums[kPiece];
      const float* const first = numbers_of(0, at);
      if (all.size() == 1) {
        std::copy(first, first + count, sums);
      } else {
        const float* const second = numbers_of(1, at);
        for (int64_t i = 0; i < count; ++i) sums[i] = first[i] + second[i];
      }
      for (size_t rank = 2; rank < all.size(); ++rank) {
        const float* const more = numbers_of(rank, at);
        for (int64_t i = 0; i < count; ++i) sums[i] += more[i];
      }
      if (end.bias != nullptr) {
        for (int64_t i = 0; i < count; ++i) sums[i] += end.bias[(at + i) % end.width];
      }
      if (end.addend != nullptr) {
        for (int64_t i = 0; i < count; ++i) out[at + i] = sums[i] + end.addend[at + i];
      } else {
        std::copy(sums, sums + count, out + at);
      }
    }
  }

  static void Finish(const SumEnd& end, float* out, int64_t begin, int64_t until) {
    const auto sums = std::as_bytes(std::span<const float>(out, static_cast<size_t>(until)));
    AddParts(std::array{sums}, end, out, begin, until);
  }

  std::string name_;
  int input_, addend_;
  Tensor bias_;  ///< where it runs
  int bias_argument_;
  int64_t ranks_;
  bool on_gpu_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(all_reduce) {
  using namespace oort;
  OperatorSchema schema({"oort.AllReduce"},
                        "The sum of what all ranks have, in the order of the ranks, and then bias "
                        "(of the last axis) and addend, once; one rank's part of a model has it. "
                        "On a GPU it has to know how many ranks there are");
  schema.Tensor("input", kF32Only).OptionalTensor("addend", kF32Only).OptionalAttribute("bias");
  schema.Int("ranks", 0).AtLeast(0);
  registry.Add(schema, Create<AllReduce>());
}

OORT_CUDA_LAYERS(all_reduce) { registry.AddDevice({"oort.AllReduce"}, DeviceType::kCuda); }
