// SPDX-License-Identifier: MIT
#include "core/guard.h"
#include "decoder/converted.h"
#include "oort/language_model.h"

namespace oort {

bool IsLanguageModel(const std::filesystem::path& path) {
  return Guarded([&] { return LooksLikeCheckpoint(path); });
}

void ConvertLanguageModel(const std::filesystem::path& model, const std::filesystem::path& param,
                          const std::filesystem::path& bin, const ConvertOptions& options) {
  Guarded([&] {
    if (std::filesystem::path(param).replace_extension(".bin") != bin) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the two files of a language model differ in .param and .bin alone");
    }
    WriteConverted(*Checkpoint::Open(model), param, bin, options);
  });
}

}  // namespace oort
