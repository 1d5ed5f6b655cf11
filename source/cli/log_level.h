// SPDX-License-Identifier: MIT
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace oort::cli {

/// Adds --log-level to a command. What it returns starts the log once options are parsed: through
/// glog to stderr, or in plain lines where this program was built without glog.
std::function<void()> AddLogLevel(CLI::App& command);

}  // namespace oort::cli
