// SPDX-License-Identifier: MIT
#include "core/guard.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "kit/errors.h"

namespace oort {
namespace {

using testing::ExpectThrows;

template <typename Thrown>
auto ThrowGuarded(Thrown thrown) {
  return [thrown] { Guarded([&] { throw thrown; }); };
}

TEST(Guard, WhatTheSystemRefusesHasItsCodeAndSentence) {
  const auto refused = [](std::errc code) { return std::system_error(std::make_error_code(code)); };
  const auto file = [](std::errc code) {
    return std::filesystem::filesystem_error("cannot open", "weights", std::make_error_code(code));
  };
  ExpectThrows(ThrowGuarded(refused(std::errc::resource_unavailable_try_again)),
               ErrorCode::kOutOfMemory, "Resource temporarily unavailable");
  ExpectThrows(ThrowGuarded(file(std::errc::too_many_files_open)), ErrorCode::kIo,
               "Too many open files");
  ExpectThrows(ThrowGuarded(refused(std::errc::not_enough_memory)), ErrorCode::kOutOfMemory, "");
  ExpectThrows(ThrowGuarded(file(std::errc::permission_denied)), ErrorCode::kIo, "weights");
  ExpectThrows(ThrowGuarded(file(std::errc::no_such_file_or_directory)), ErrorCode::kNotFound,
               "No such file");
  ExpectThrows(ThrowGuarded(refused(std::errc::resource_deadlock_would_occur)),
               ErrorCode::kInternal, "deadlock");
}

TEST(Guard, TheRestIsNoMemoryOrABug) {
  ExpectThrows(ThrowGuarded(std::bad_alloc()), ErrorCode::kOutOfMemory, "out of memory");
  ExpectThrows(ThrowGuarded(std::length_error("long")), ErrorCode::kOutOfMemory, "out of memory");
  ExpectThrows(ThrowGuarded(std::runtime_error("odd")), ErrorCode::kInternal, "odd");
  ExpectThrows(ThrowGuarded(Error(ErrorCode::kLimit, "full")), ErrorCode::kLimit, "full");
}

}  // namespace
}  // namespace oort
