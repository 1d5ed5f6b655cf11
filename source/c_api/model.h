// SPDX-License-Identifier: MIT
// What model and engine share of language models.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "oort/c.h"
#include "oort/language_model.h"

struct oort_model {
  std::shared_ptr<const oort::LanguageModel> model;
};

struct oort_chat {
  std::vector<std::string> messages;  ///< a JSON object each
};

namespace oort::c_api {

std::vector<int32_t> EncodeText(const LanguageModel& model, std::string_view text,
                                const oort_options* options);
std::vector<int32_t> EncodeChat(const LanguageModel& model, const oort_chat& chat,
                                const oort_options* options);

/// The number of that name; throws kInvalidArgument with those that there are.
template <typename Number>
Number NumberOf(std::span<const std::pair<const char*, Number>> numbers, std::string_view name) {
  std::string names;
  for (const auto& [known, value] : numbers) {
    if (known == name) return value;
    names += (names.empty() ? "" : ", ") + std::string(known);
  }
  throw Error(ErrorCode::kInvalidArgument,
              "there is no number '" + std::string(name) + "' here, but " + names);
}

}  // namespace oort::c_api
