// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>

#include "oort/kv_cache.h"
#include "oort/layer.h"

namespace oort {
namespace {

/// Rows of pictures in place of the embeddings of the tokens that stand for them.
class PictureRows final : public Layer {
 public:
  explicit PictureRows(const LayerInit& init) : input_(init.Arg("input")) {}

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& input = args.shape(input_);
    if (input.rank() != 2) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected (tokens, elements), got " + input.ToString());
    }
    return {Tensor::Meta(DType::kF32, input)};
  }

  std::vector<Reuse> Reuses(const Args&) const override { return {{Reuse::kInPlace, input_, 0}}; }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(input_);
    Tensor& out = outputs[0].AsTensor();
    if (out.raw() != input.raw() && input.bytes() > 0) {
      std::memcpy(out.raw(), input.raw(), input.bytes());
    }
    const SequenceBatch* batch = SequenceBatch::Of(context);
    if (batch == nullptr) return;
    const int64_t rows = input.dim(0), elements = input.dim(1);
    for (const PictureRow& picture : batch->pictures()) {
      if (picture.row < 0 || picture.row >= rows || picture.embedding == nullptr) {
        throw Error(ErrorCode::kInvalidArgument, "expected rows of pictures below " +
                                                     std::to_string(rows) + ", got " +
                                                     std::to_string(picture.row));
      }
      std::copy_n(picture.embedding, elements, out.data<float>() + picture.row * elements);
    }
  }

 private:
  int input_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(picture_rows) {
  using namespace oort;
  registry.Add(OperatorSchema({"oort.PictureRows"},
                              "input, embeddings of tokens, with those of pictures in the rows of "
                              "tokens that stand for a part of one, as the run's state says")
                   .Tensor("input", kF32Only),
               Create<PictureRows>());
}
