// SPDX-License-Identifier: MIT
// The border between C and C++: what is thrown becomes a code and an error object.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "core/guard.h"
#include "oort/c_network.h"
#include "oort/error.h"

/// Copying an Error never throws, and so does making one of these.
struct oort_error {
  explicit oort_error(const oort::Error& given) noexcept : error(given) {}
  oort::Error error;
};

namespace oort::c_api {

/// Hands the error to the caller, who may not want it.
oort_code Fail(oort_error** error, const Error& thrown) noexcept;

/// Throws kInvalidArgument for a pointer that may not be null; `what` names it.
void Need(const void* pointer, std::string_view what);

/// Memory for `count` elements that oort_free frees; never null, not even for none.
void* AllocateForCaller(size_t count, size_t size);
/// A copy with a zero behind it, which oort_free frees. `length` may be null.
void GiveText(const std::string& given, char** text, size_t* length);

/// Runs `body`; nothing that it throws comes out.
template <typename Body>
oort_code AtBorder(oort_error** error, Body&& body) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    std::forward<Body>(body)();
    return OORT_OK;
  } catch (...) {
    return Fail(error, CaughtError());
  }
}

/// The same for functions that cannot tell what went wrong: `otherwise` where something did.
template <typename Body, typename Result>
Result Quietly(Result otherwise, Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    return otherwise;
  }
}

}  // namespace oort::c_api
