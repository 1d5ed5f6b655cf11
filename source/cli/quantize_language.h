// SPDX-License-Identifier: MIT
// `oort quantize` of a language model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"

namespace oort::cli {

struct LanguageQuantizeArguments {
  std::string model, out, weights, method, imatrix, write_imatrix;
  std::vector<std::string> calibrate, test;
  std::optional<int64_t> group;
  int64_t tokens = 16384, test_tokens = 8192, window = 512;
  double damping = 0.01;
  bool asymmetric = false, file_order = false;
  bool report = false, json = false;
  int threads = 0;

  /// Options that networks do not have.
  void Add(CLI::App& app);
  /// Throws a UsageError where one of these was given for a network.
  void RefuseForNetwork(const CLI::App& app) const;
};

int QuantizeLanguageModel(const LanguageQuantizeArguments& options);

}  // namespace oort::cli
