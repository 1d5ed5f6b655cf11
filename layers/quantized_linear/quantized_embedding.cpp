// SPDX-License-Identifier: MIT
#include "core/cpu_limits.h"
#include "layers/index/index_plan.h"
#include "layers/quantized_linear/stored_weight.h"
#include "layers/quantized_linear/table_part.h"

namespace oort {
namespace {

/// Rows of a table that stays in 32 to 4 bits.
class QuantizedEmbedding final : public Layer {
 public:
  explicit QuantizedEmbedding(const LayerInit& init)
      : input_(init.Arg("input")),
        scale_(static_cast<float>(init.Float("factor"))),
        table_(QuantizedMatrix::Shared(
            ReadStored(init, 0, init.Int("num_embeddings"), init.Int("embedding_dim")),
            AvailableThreads())),
        part_(init, table_->rows()),
        packed_(StoredArguments(init, 1)) {}

  std::vector<Value> Infer(const Args& args) const override {
    Shape shape = args.shape(input_);
    shape.Append(table_->columns());
    shape.elements();
    return {Tensor::Meta(DType::kF32, shape)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor indices = args.tensor(input_).To(DType::kI64);
    const std::span<const int64_t> rows = indices.span<int64_t>();
    for (int64_t row : rows) {
      if (row >= 0 && row < part_.all) continue;
      throw Error(ErrorCode::kInvalidArgument, "index " + std::to_string(row) +
                                                   " is not in a table of " +
                                                   std::to_string(part_.all) + " rows");
    }
    const int64_t width = table_->columns();
    float* out = outputs[0].AsTensor().data<float>();
    context.ParallelFor(static_cast<int64_t>(rows.size()), 4 * 1024 / width + 1,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) {
                            float* row = out + i * width;
                            const int64_t place = rows[static_cast<size_t>(i)] - part_.first;
                            if (place < 0 || place >= part_.rows) {
                              std::fill_n(row, width, 0.0f);  // another rank has it
                              continue;
                            }
                            table_->ReadRow(place, row);
                            if (scale_ == 1.0f) continue;
                            for (int64_t j = 0; j < width; ++j) row[j] *= scale_;
                          }
                        });
  }

  bool Packs(int argument) const override { return IsAmong(packed_, argument); }

 private:
  int input_;
  float scale_;
  std::shared_ptr<const QuantizedMatrix> table_;
  TablePart part_;
  std::vector<int> packed_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(quantized_embedding) {
  using namespace oort;
  OperatorSchema schema(
      {"oort.QuantizedEmbedding"},
      "The row of the table that each index names, times a factor; the table "
      "stays in 32 to 4 bits. A table that is the part of all_rows from first_row on "
      "gives zeros for the others");
  schema.Tensor("input", kIntegers);
  AddStoredWeight(schema, 0);
  schema.Int("num_embeddings").AtLeast(1).Int("embedding_dim").AtLeast(1).Float("factor", 1.0);
  schema.Int("first_row", 0).AtLeast(0).Int("all_rows", 0).AtLeast(0);
  registry.Add(schema, Create<QuantizedEmbedding>());
}
