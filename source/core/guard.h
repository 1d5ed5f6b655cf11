// SPDX-License-Identifier: MIT
#pragma once

#include <new>
#include <stdexcept>
#include <utility>

#include "oort/error.h"

namespace oort {

/// Runs `body` at the border of the library: what the standard library throws when memory is
/// refused becomes an oort::Error.
template <typename Body>
decltype(auto) GuardMemory(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    throw Error::OutOfMemory();
  } catch (const std::length_error&) {
    throw Error::OutOfMemory();
  }
}

}  // namespace oort
