// SPDX-License-Identifier: MIT
// The head of a request, read strictly: what two programs could understand in two ways is refused,
// so that nothing is smuggled past a proxy.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "serve/http/message.h"

namespace oort::serve::http {

struct HeadLimits {
  size_t bytes = 16 << 10;
  size_t fields = 100;
  size_t target_bytes = 4 << 10;
};

/// A request that is not answered but refused; the connection closes behind it.
struct Refusal {
  int status = 400;
  std::string message;
};

/// Whether it is what names of methods and fields are made of.
bool IsToken(std::string_view text);

/// Where the head ends, behind its empty line; none while it is not all there. `scanned` is what
/// earlier calls have looked at. Throws a Refusal for line ends that are no CR LF.
std::optional<size_t> FindHeadEnd(std::string_view bytes, size_t& scanned);

/// Reads a whole head, its empty line included. Throws a Refusal.
Request ParseHead(std::string_view head, const HeadLimits& limits);

}  // namespace oort::serve::http
