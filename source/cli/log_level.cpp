// SPDX-License-Identifier: MIT
#include "cli/log_level.h"

#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "oort/log.h"
#ifdef OORT_GLOG
#include "oort/glog.h"
#endif

namespace oort::cli {
namespace {

/// What the program was asked to tell.
log::Level told = log::Level::kOff;

void WriteTo(std::function<void(std::string_view)> write) {
  log::SetSink([write = std::move(write)](
                   log::Level, std::string_view message) { write("log: " + std::string(message)); },
               told);
}

void StartLog(log::Level level) {
  told = level;
  if (level == log::Level::kOff) return;
#ifdef OORT_GLOG
  FLAGS_logtostderr = true;
  google::InitGoogleLogging("oort");
  log::UseGlog(level);
#else
  WriteTo([](std::string_view line) { std::cerr << std::string(line) + '\n'; });
#endif
}

}  // namespace

std::function<void()> AddLogLevel(CLI::App& command) {
  static const std::map<std::string, log::Level> kLevels = {{"debug", log::Level::kDebug},
                                                            {"info", log::Level::kInfo},
                                                            {"warning", log::Level::kWarning},
                                                            {"error", log::Level::kError},
                                                            {"off", log::Level::kOff}};
  auto name = std::make_shared<std::string>("off");
  command
      .add_option("--log-level", *name,
                  "What the library tells on stderr: debug, info, warning, error or off")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}))
      ->envname("OORT_LOG_LEVEL");
  return [name] { StartLog(kLevels.at(*name)); };
}

LogElsewhere::LogElsewhere(std::function<void(std::string_view)> write) {
  if (told != log::Level::kOff) WriteTo(std::move(write));
}

LogElsewhere::~LogElsewhere() {
  if (told != log::Level::kOff) log::SetSink({}, log::Level::kOff);
}

}  // namespace oort::cli
