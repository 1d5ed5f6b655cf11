// SPDX-License-Identifier: MIT
// How who asks knows the fields of a request that was translated from another API.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "openai/request_error.h"

namespace oort::openai {

class FieldNames {
 public:
  FieldNames() = default;
  /// Pairs of paths: OpenAI's, and what it was made of.
  FieldNames(std::initializer_list<std::pair<std::string, std::string>> names) : names_(names) {}

  void Add(std::string ours, std::string theirs) {
    names_.emplace_back(std::move(ours), std::move(theirs));
  }
  /// An error that blames a field, or one inside of it, as who asked knows that.
  ApiError Translated(ApiError error) const;
  /// Does it, and translates what that refuses.
  template <typename Action>
  auto Within(const Action& action) const {
    try {
      return action();
    } catch (const RequestError& error) {
      throw RequestError(Translated(error.content()));
    }
  }

 private:
  std::string Translated(const std::string& path) const;

  std::vector<std::pair<std::string, std::string>> names_;
};

}  // namespace oort::openai
