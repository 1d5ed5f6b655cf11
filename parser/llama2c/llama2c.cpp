// SPDX-License-Identifier: MIT
#include "parser/checkpoint/contents.h"
namespace oort {
bool LooksLikeLlama2c(const ByteSource&) { return false; }
CheckpointContents ReadLlama2c(const std::filesystem::path&) {
  throw Error(ErrorCode::kUnsupported, "checkpoints of llama2.c");
}
}  // namespace oort
