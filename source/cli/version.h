// SPDX-License-Identifier: MIT
#pragma once

namespace oort::cli {

/// `oort --version`: the version, and which packages and kernels are in this build.
int PrintVersion(bool json);

}  // namespace oort::cli
