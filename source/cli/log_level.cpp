// SPDX-License-Identifier: MIT
#include "cli/log_level.h"

#include <iostream>
#include <map>
#include <memory>
#include <string>

#ifdef OORT_GLOG
#include "oort/glog.h"
#else
#include "oort/log.h"
#endif

namespace oort::cli {
namespace {

void StartLog(log::Level level) {
  if (level == log::Level::kOff) return;
#ifdef OORT_GLOG
  FLAGS_logtostderr = true;
  google::InitGoogleLogging("oort");
  log::UseGlog(level);
#else
  log::SetSink([](log::Level,
                  std::string_view message) { std::cerr << "log: " + std::string(message) + "\n"; },
               level);
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

}  // namespace oort::cli
