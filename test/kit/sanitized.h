// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "core/sanitized.h"

namespace oort::testing {

/// Tests that try very many cases try fewer then.
using oort::IsSanitized;

/// How far a test goes from one of very many cases to the next, where they differ by place and not
/// by kind: 1, but `step` where a sanitizer makes everything slower. `tools/test --full` tries all.
constexpr int64_t CaseStep([[maybe_unused]] int64_t step) {
#ifdef OORT_FULL_TESTS
  return 1;
#else
  return IsSanitized() ? step : 1;
#endif
}

/// Whether tests of many cases leave some out: under a sanitizer, but for `tools/test --full`.
constexpr bool TriesFewer() { return CaseStep(2) > 1; }

}  // namespace oort::testing
