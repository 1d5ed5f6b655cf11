// SPDX-License-Identifier: MIT
#include <algorithm>
#include <string>

#include "core/parallel.h"
#include "layers/collective/group_of.h"

namespace oort {
namespace {

/// Sums of what all ranks have, added in the order of the ranks by each of them.
class AllReduce final : public Layer {
 public:
  explicit AllReduce(const LayerInit& init)
      : name_(NameInGroup(init)),
        input_(init.Arg("input")),
        addend_(init.Arg("addend")),
        bias_(init.Weight("bias")) {}

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
    return {{Reuse::kInPlace, input_, 0, 0}};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Collective& group = GroupOfRun();
    const Tensor& input = args.tensor(input_);
    float* out = outputs[0].AsTensor().data<float>();
    const int64_t count = input.elements();
    if (input.bytes() >= kBytesToShare && SumShared(context, group, args, out)) return;
    const int64_t grain = GrainOf({12, 1});
    const std::vector<size_t> sizes(static_cast<size_t>(group.ranks()), input.bytes());
    const std::span<const std::byte> mine(input.raw(), input.bytes());
    group.Exchange(name_, mine, sizes, [&](int rank, std::span<const std::byte> bytes) {
      const float* numbers = reinterpret_cast<const float*>(bytes.data());
      context.ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
        if (rank == 0) {
          std::copy(numbers + begin, numbers + end, out + begin);
          return;
        }
        for (int64_t i = begin; i < end; ++i) out[i] += numbers[i];
      });
    });
    if (!args.Has(addend_) && !bias_.defined()) return;
    context.ParallelFor(count, GrainOf({12, 2}),
                        [&](int64_t begin, int64_t end) { Finish(args, out, begin, end); });
  }

 private:
  using Parts = std::span<const std::span<const std::byte>>;

  /// Each rank adds up a part of the numbers of all, where they lie, and then takes the other parts
  /// from those who did so. Nobody writes what another one reads: results may lie on inputs.
  bool SumShared(const Context& context, Collective& group, const Args& args, float* out) const {
    const Tensor& input = args.tensor(input_);
    const int64_t count = input.elements(), ranks = group.ranks();
    const int64_t first = count * group.rank() / ranks, last = count * (group.rank() + 1) / ranks;
    const auto add = [&](Parts all) {
      for (const auto& part : all) CheckPart(part.size(), input.bytes());
      context.ParallelFor(last - first, GrainOf({8.0 * static_cast<double>(ranks), 2}),
                          [&](int64_t begin, int64_t end) {
                            AddParts(all, out, first + begin, first + end);
                            Finish(args, out, first + begin, first + end);
                          });
    };
    const std::span<const std::byte> mine(input.raw(), input.bytes());
    if (!group.Share(name_, mine, add)) return false;
    const auto take = [&](Parts all) {
      for (int64_t rank = 0; rank < ranks; ++rank) {
        if (rank == group.rank()) continue;
        const int64_t from = count * rank / ranks, until = count * (rank + 1) / ranks;
        const auto* numbers = reinterpret_cast<const float*>(all[static_cast<size_t>(rank)].data());
        context.ParallelFor(until - from, GrainOf({8, 0}), [&](int64_t begin, int64_t end) {
          std::copy(numbers + from + begin, numbers + from + end, out + from + begin);
        });
      }
    };
    return group.Share(name_, std::as_bytes(std::span(out, static_cast<size_t>(count))), take);
  }

  static void CheckPart(size_t bytes, size_t expected) {
    if (bytes == expected) return;
    throw Error(ErrorCode::kDevice, "a rank has " + std::to_string(bytes) + " bytes of " +
                                        std::to_string(expected) +
                                        ": they do not compute the same model");
  }

  /// Pieces stay in the first cache while the numbers of one rank after the other are added.
  static void AddParts(Parts all, float* out, int64_t begin, int64_t end) {
    constexpr int64_t kPiece = 2048;
    for (int64_t at = begin; at < end; at += kPiece) {
      const int64_t until = std::min(at + kPiece, end);
      float sums[kPiece];
      for (size_t rank = 0; rank < all.size(); ++rank) {
        const auto* numbers = reinterpret_cast<const float*>(all[rank].data());
        if (rank == 0) {
          std::copy(numbers + at, numbers + until, sums);
          continue;
        }
        for (int64_t i = at; i < until; ++i) sums[i - at] += numbers[i];
      }
      std::copy(sums, sums + (until - at), out + at);
    }
  }

  void Finish(const Args& args, float* out, int64_t begin, int64_t end) const {
    const float* addend = args.Has(addend_) ? args.tensor(addend_).data<float>() : nullptr;
    const float* bias = bias_.defined() ? bias_.data<float>() : nullptr;
    const int64_t width = args.tensor(input_).dim(-1);
    if (bias != nullptr) {
      for (int64_t i = begin; i < end; ++i) out[i] += bias[i % width];
    }
    if (addend == nullptr) return;
    for (int64_t i = begin; i < end; ++i) out[i] += addend[i];
  }

  std::string name_;
  int input_, addend_;
  Tensor bias_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(all_reduce) {
  using namespace oort;
  OperatorSchema schema({"oort.AllReduce"},
                        "The sum of what all ranks have, in the order of the ranks, and then bias "
                        "(of the last axis) and addend, once; one rank's part of a model has it");
  schema.Tensor("input", kF32Only).OptionalTensor("addend", kF32Only).OptionalAttribute("bias");
  registry.Add(schema, Create<AllReduce>());
}
