// SPDX-License-Identifier: MIT
#pragma once

#include <new>
#include <stdexcept>
#include <utility>

#include "oort/error.h"

namespace oort {

/// Runs `body` at the border of the library: whatever it throws leaves as an oort::Error.
template <typename Body>
decltype(auto) Guarded(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw Error::OutOfMemory();
  } catch (const std::length_error&) {
    throw Error::OutOfMemory();
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kInternal, error.what());
  }
}

}  // namespace oort
