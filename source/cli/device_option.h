// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "cli/command.h"
#include "oort/device.h"

namespace oort::cli {

/// --device cpu|cuda|cuda:N, the same for all commands that run a model.
struct DeviceOption {
  std::string text = "cpu";

  void Add(CLI::App& app);
  /// Throws UsageError where the text names no kind of device.
  Device Get() const;
  /// Whether it is one of several that is meant: "cuda:0", not "cuda".
  bool NamesOne() const { return text.find(':') != std::string::npos; }
};

/// How many threads of the CPU take part.
void AddThreads(CLI::App& app, int& threads);

}  // namespace oort::cli
