// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>

#include "layers/collective/group_of.h"

namespace oort {
namespace {

/// What one rank has computed and another goes on with.
class Pass final : public Layer {
 public:
  explicit Pass(const LayerInit& init)
      : name_(NameInGroup(init)),
        input_(init.Arg("input")),
        like_(init.Arg("like")),
        width_(init.Int("width")),
        from_(static_cast<int>(init.Int("from"))),
        to_(static_cast<int>(init.Int("to"))) {}

  std::vector<Value> Infer(const Args& args) const override {
    const bool has_input = args.Has(input_);
    if (has_input == args.Has(like_)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected an input on the rank that sends, and else what has as many rows");
    }
    if (!has_input && args.shape(like_).rank() < 1) {
      throw Error(ErrorCode::kInvalidArgument, "expected a tensor with rows, got a number");
    }
    const int64_t rows = has_input ? 0 : args.shape(like_)[0];
    const Shape shape = width_ > 0 ? Shape{rows, width_} : Shape{rows};
    const DType dtype = width_ > 0 ? DType::kF32 : DType::kI32;
    if (!has_input) return {Tensor::Meta(dtype, shape)};
    const Tensor& input = args.tensor(input_);
    const bool fits = input.dtype() == dtype && input.rank() == shape.rank() &&
                      (width_ == 0 || input.dim(-1) == width_);
    if (!fits) {
      throw Error(ErrorCode::kInvalidArgument, "expected rows of " + std::to_string(width_) +
                                                   " numbers, got " + input.ToString());
    }
    return {Tensor::Meta(dtype, input.shape())};
  }

  std::vector<Reuse> Reuses(const Args& args) const override {
    if (!args.Has(input_)) return {};
    return {{Reuse::kInPlace, input_, 0, 0}};
  }

  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    Collective& group = GroupOfRun();
    Tensor& output = outputs[0].AsTensor();
    const std::span<std::byte> bytes(output.raw(), output.bytes());
    if (args.Has(input_)) {
      const Tensor& input = args.tensor(input_);
      if (output.raw() != input.raw() && !bytes.empty()) {
        std::memcpy(bytes.data(), input.raw(), bytes.size());
      }
    } else if (group.rank() != to_) {
      std::ranges::fill(bytes, std::byte{0});  // nobody reads it here
    }
    // A step that nobody wants anything of ends for its first ranks before the last one is done.
    if (!bytes.empty()) group.Pass(name_, bytes, from_, to_);
  }

 private:
  std::string name_;
  int input_, like_;
  int64_t width_;
  int from_, to_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(pass) {
  using namespace oort;
  OperatorSchema schema(
      {"oort.Pass"},
      "Rows of numbers (with width 0: a token each) that rank `from` hands to "
      "rank `to`; on `from` they are the input, elsewhere there are as many as "
      "`like` has. It comes behind `after`. One rank's layers of a model have it");
  schema.OptionalTensor("input", DType::kF32 | DType::kI32)
      .OptionalTensor("like", DTypeSet(DType::kI32))
      .OptionalTensor("after", kF32Only);
  schema.Int("width", 0).AtLeast(0);
  schema.Int("from").AtLeast(0);
  schema.Int("to").AtLeast(0);
  registry.Add(schema, Create<Pass>());
}
