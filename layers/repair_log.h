// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "oort/layer.h"
#include "oort/log.h"

namespace oort {

/// A fault of the converter was made good: says so, in case the answer surprises somebody.
inline void LogRepair(const LayerInit& init, const std::string& what) {
  log::Write(log::Level::kWarning, init.op().Describe() + ": " + what);
}

}  // namespace oort
