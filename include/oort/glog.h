// SPDX-License-Identifier: MIT
// A bridge to glog, for programs that log through it. The library itself does not need glog; a
// program that includes this header links it, initializes it and configures it as it likes.
#pragma once

#include <glog/logging.h>

#include "oort/log.h"

namespace oort::log {

/// Sends messages of at least `level` to glog; it has no debug level, these are INFO there.
inline void UseGlog(Level level = Level::kInfo) {
  SetSink(
      [](Level at, std::string_view message) {
        switch (at) {
          case Level::kError: LOG(ERROR) << message; break;
          case Level::kWarning: LOG(WARNING) << message; break;
          default: LOG(INFO) << message; break;
        }
      },
      level);
}

}  // namespace oort::log
