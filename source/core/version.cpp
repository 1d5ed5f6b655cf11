// SPDX-License-Identifier: MIT
#include "core/version.h"

namespace oort {

// The build defines OORT_VERSION for this file alone.
const char* LibraryVersion() { return OORT_VERSION; }

}  // namespace oort
