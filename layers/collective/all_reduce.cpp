// SPDX-License-Identifier: MIT
#include <algorithm>

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
    Finish(context, args, out, count);
  }

 private:
  void Finish(const Context& context, const Args& args, float* out, int64_t count) const {
    const float* addend = args.Has(addend_) ? args.tensor(addend_).data<float>() : nullptr;
    const float* bias = bias_.defined() ? bias_.data<float>() : nullptr;
    if (addend == nullptr && bias == nullptr) return;
    const int64_t width = args.tensor(input_).dim(-1);
    context.ParallelFor(count, GrainOf({12, 2}), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float sum = out[i];
        if (bias != nullptr) sum += bias[i % width];
        out[i] = addend == nullptr ? sum : sum + addend[i];
      }
    });
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
