// SPDX-License-Identifier: MIT
// Where SmolLM2-135M-Instruct is, for tests that need a real model.
#pragma once

#include <cstdlib>
#include <filesystem>

#include "kit/paths.h"
#include "kit/sanitized.h"

namespace oort::testing {

/// The file that OORT_SMOLLM2 names, or what tools/fetch-smollm2 brought; empty where there is
/// none.
inline std::filesystem::path SmolModelFile() {
  if (const char* given = std::getenv("OORT_SMOLLM2")) return given;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(SourceTree() / ".cache" / "smollm2", ignored)) {
    if (entry.path().extension() == ".gguf") return entry.path();
  }
  return {};
}

/// Of 135 million weights: under a sanitizer it would take minutes, and small models show the same.
inline constexpr bool kTooSlowForSmol = IsSanitized();

}  // namespace oort::testing
