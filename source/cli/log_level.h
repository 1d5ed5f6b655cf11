// SPDX-License-Identifier: MIT
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string_view>

namespace oort::cli {

/// Adds --log-level to a command. What it returns starts the log once options are parsed: through
/// glog to stderr, or in plain lines where this program was built without glog.
std::function<void()> AddLogLevel(CLI::App& command);

/// While it lives, what --log-level has asked for goes to `write` instead, in plain lines.
class LogElsewhere {
 public:
  explicit LogElsewhere(std::function<void(std::string_view)> write);
  ~LogElsewhere();
  LogElsewhere(const LogElsewhere&) = delete;
  LogElsewhere& operator=(const LogElsewhere&) = delete;
};

}  // namespace oort::cli
