// SPDX-License-Identifier: MIT
// `oort quantize` of a language model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"

namespace oort::cli {

struct LanguageQuantizeArguments {
  std::string model, out, weights, method, imatrix, write_imatrix, recipe, budget, html;
  std::vector<std::string> calibrate, test;
  std::optional<int64_t> group, tokens, window;
  std::optional<double> damping;
  int64_t test_tokens = 8192;
  bool asymmetric = false, file_order = false, resume = false;
  bool report = false, json = false;
  int threads = 0;

  /// Options that networks do not have.
  void Add(CLI::App& app);
  /// Throws a UsageError where one of these was given for a network.
  void RefuseForNetwork(const CLI::App& app) const;
};

/// "net.pnnx.param" and "net.gguf" have "net.recipe.json" beside them.
std::filesystem::path RecipeBeside(const std::filesystem::path& output);

int QuantizeLanguageModel(const LanguageQuantizeArguments& options);

}  // namespace oort::cli
