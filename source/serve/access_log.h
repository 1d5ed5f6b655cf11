// SPDX-License-Identifier: MIT
// A request that is over, as a line that programs read.
#pragma once

#include <chrono>
#include <string>

#include "serve/http/server.h"

namespace oort::serve {

/// A JSON object in one line, without its end: when, who, what, how long, how many tokens. Nothing
/// of a prompt, an answer, a key or a header is in it. The words "name=value" of the note become
/// members of their own.
std::string AccessLine(const http::Served& served, std::chrono::system_clock::time_point now);

}  // namespace oort::serve
