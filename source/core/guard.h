// SPDX-License-Identifier: MIT
#pragma once

#include <exception>
#include <utility>

#include "oort/error.h"

namespace oort {

/// What is being caught, as an Error: to be called in a handler. What the operating system refused
/// keeps its sentence.
Error CaughtError() noexcept;

/// Runs `body` at the border of the library: whatever it throws leaves as an oort::Error.
template <typename Body>
decltype(auto) Guarded(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    throw CaughtError();
  }
}

}  // namespace oort
