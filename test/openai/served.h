// SPDX-License-Identifier: MIT
// The storyteller as requests see it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "kit/paths.h"
#include "openai/generate_call.h"

namespace oort::openai {

inline const ServedModel& Storyteller() {
  static const ServedModel served = [] {
    ServedModel made;
    made.model = LanguageModel::Load(SourceTree() / "models/storyteller");
    made.name = "storyteller";
    made.aliases = {"stories"};
    made.fingerprint = "fp_1";
    return made;
  }();
  return served;
}

/// The error that `action` throws; fails where it throws none.
template <typename Action>
ApiError ErrorOf(const Action& action) {
  try {
    action();
  } catch (...) {
    return ApiErrorOf(std::current_exception());
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace oort::openai
