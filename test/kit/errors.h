// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "oort/error.h"

namespace oort::testing {

/// `action` throws an Error of this code whose message contains `text`.
template <typename Action>
void ExpectThrows(const Action& action, ErrorCode code, std::string_view text) {
  try {
    action();
    ADD_FAILURE() << "no error; expected one that says '" << text << "'";
  } catch (const Error& error) {
    EXPECT_EQ(Name(error.code()), Name(code)) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(text), std::string_view::npos)
        << "got:      " << std::string_view(error.what()).substr(0, 2000) << "\nexpected: " << text;
  }
}

}  // namespace oort::testing
