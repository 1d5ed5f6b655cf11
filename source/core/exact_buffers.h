// SPDX-License-Identifier: MIT
// Defines OORT_EXACT_BUFFERS under AddressSanitizer: every buffer then has exactly its size, so
// that the first byte behind it is seen.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define OORT_EXACT_BUFFERS
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OORT_EXACT_BUFFERS
#endif
#endif
