// SPDX-License-Identifier: MIT
// How an encoder is loaded, for the commands that use one.
#pragma once

#include <string>

#include "cli/command.h"
#include "oort/embedder.h"

namespace oort::cli {

/// --pooling and --no-normalize.
struct PoolingOptions {
  std::string pooling = "auto";
  bool raw = false;

  void Add(CLI::App& app);
  void Apply(EmbedderOptions& options) const;
};

}  // namespace oort::cli
