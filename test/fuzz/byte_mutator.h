// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "random.h"

namespace oort::fuzz {

/// Changes bytes without knowing what they mean, with words of a dictionary and pieces of others.
class ByteMutator {
 public:
  /// `dictionary`: words to insert.
  explicit ByteMutator(std::vector<std::string> dictionary) : words_(std::move(dictionary)) {}
  std::string Mutate(std::string input, Random& random) const;

 private:
  void MutateOnce(std::string& input, Random& random) const;
  std::vector<std::string> words_;
};

/// The words of a dictionary as libFuzzer has them: one in quotes in each line, \xAB for a byte.
std::vector<std::string> ReadDictionary(const std::string& path);

}  // namespace oort::fuzz
