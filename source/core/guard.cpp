// SPDX-License-Identifier: MIT
#include "core/guard.h"

#include <filesystem>
#include <ios>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

namespace oort {
namespace {

/// Of what was refused to a thread, a file or a stream; a mutex that was misused is a bug.
ErrorCode CodeOf(const std::system_error& error) {
  using std::errc;
  const std::error_code& code = error.code();
  // No thread is to be had: as with memory, there may be one again.
  if (code == errc::not_enough_memory || code == errc::resource_unavailable_try_again) {
    return ErrorCode::kOutOfMemory;
  }
  if (dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr) {
    return code == errc::no_such_file_or_directory ? ErrorCode::kNotFound : ErrorCode::kIo;
  }
  const bool stream = dynamic_cast<const std::ios_base::failure*>(&error) != nullptr;
  return stream ? ErrorCode::kIo : ErrorCode::kInternal;
}

Error Translated() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error::OutOfMemory();
  } catch (const std::length_error&) {
    return Error::OutOfMemory();
  } catch (const std::system_error& error) {
    return Error(CodeOf(error), std::string("the operating system refused: ") + error.what());
  } catch (const std::exception& error) {
    return Error(ErrorCode::kInternal, error.what());
  }
}

}  // namespace

Error CaughtError() noexcept {
  try {
    return Translated();
  } catch (...) {  // no memory for the sentence, or nothing that anyone here throws
    return Error::OutOfMemory();
  }
}

}  // namespace oort
