// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/guard.h"
#include "llm/decoder_runner.h"
#include "llm/text_reader.h"
#include "oort/engine.h"

namespace oort {
namespace {

constexpr int64_t kVisitRows = 64;  // whose logits are in memory at a time

}  // namespace

void VisitLogits(std::shared_ptr<const LanguageModel> model, std::span<const int32_t> tokens,
                 int64_t window, const EngineOptions& options,
                 const std::function<void(int64_t, std::span<const float>)>& visit) {
  Guarded([&] {
    if (!model || window < 2) {
      throw Error(ErrorCode::kInvalidArgument, "a window has at least two tokens of a model");
    }
    if (model->info().encodes_prompts) throw NotOfEncoderDecoders("how well a text is predicted");
    const int64_t count = static_cast<int64_t>(tokens.size());
    const int64_t most = std::min(window, count - 1), context = model->info().context;
    if (most > context) {
      throw Error(ErrorCode::kLimit, "a window of " + std::to_string(most) +
                                         " tokens is longer than the model's context of " +
                                         std::to_string(context));
    }
    const int64_t vocabulary = model->info().vocabulary;
    const KvType kv = options.kv.value_or(model->default_kv());
    DecoderRunner runner(std::move(model), kv, window, options.threads);
    for (int64_t begin = 0; begin + 1 < count; begin += window) {
      // The last token of the text predicts nothing that is there.
      const int64_t end = std::min(begin + window, count - 1);
      CachedSequence sequence;
      for (int64_t at = begin; at < end; at += kVisitRows) {
        const int64_t rows = std::min(kVisitRows, end - at);
        const StepItem item{&sequence,
                            tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(rows)),
                            StepItem::kAll, end - begin};
        const std::span<const float> logits = runner.Step({&item, 1});
        for (int64_t row = 0; row < rows; ++row) {
          visit(at + row, logits.subspan(static_cast<size_t>(row * vocabulary),
                                         static_cast<size_t>(vocabulary)));
        }
      }
    }
  });
}

}  // namespace oort
