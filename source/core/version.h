// SPDX-License-Identifier: MIT
#pragma once

namespace oort {

/// That of the library: "0.2.0".
const char* LibraryVersion();

}  // namespace oort
