// SPDX-License-Identifier: MIT
#pragma once

namespace oort {

/// Whether this build has a sanitizer that makes everything many times slower.
constexpr bool IsSanitized() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#elif defined(__has_feature)
  return __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
  return false;
#endif
}

}  // namespace oort
