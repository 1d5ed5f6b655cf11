// SPDX-License-Identifier: MIT
#include "parser/checkpoint/contents.h"
namespace oort {
CheckpointContents ReadHuggingFace(const std::filesystem::path&) {
  throw Error(ErrorCode::kUnsupported, "folders of Hugging Face");
}
}  // namespace oort
