// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace oort::cli {

/// "0.2.0"
std::string Version();

/// `oort --version`: the version, and which packages and kernels are in this build.
int PrintVersion(bool json);

}  // namespace oort::cli
