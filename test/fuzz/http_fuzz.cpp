// SPDX-License-Identifier: MIT
// Any bytes as the head of a request, whole and cut in two: a Refusal with a status of the client's
// fault, or a request that can be framed in one way only.
#include <algorithm>
#include <optional>
#include <string_view>

#include "harness.h"
#include "serve/http/head.h"

namespace {

using oort::serve::http::FindHeadEnd;
using oort::serve::http::ParseHead;
using oort::serve::http::Refusal;
using oort::serve::http::Request;

void Check(bool holds) {
  if (!holds) __builtin_trap();
}

void CheckRefusal(const Refusal& refusal) {
  Check(refusal.status >= 400 && refusal.status < 600 && !refusal.message.empty());
}

/// Where a head ends does not depend on how the network cuts it.
std::optional<size_t> FindInPieces(std::string_view text, size_t cut) {
  size_t scanned = 0;
  if (const auto end = FindHeadEnd(text.substr(0, cut), scanned)) return end;
  return FindHeadEnd(text, scanned);
}

void CheckRequest(const Request& request) {
  Check(!request.method.empty() && !request.path.empty());
  Check(!(request.chunked && request.length));
  for (const oort::serve::http::Field& field : request.fields) {
    Check(!field.name.empty());
    Check(field.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
  }
}

}  // namespace

oort::fuzz::Target oort::fuzz::MakeTarget() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    size_t scanned = 0;
    const std::optional<size_t> end = FindHeadEnd(text, scanned);
    const size_t cut = text.empty() ? 0 : data[0] % text.size();
    Check(FindInPieces(text, cut) == end);
    if (!end) return 0;
    Check(*end <= text.size());
    CheckRequest(ParseHead(text.substr(0, *end), {}));
    oort::fuzz::CountWhole();
  } catch (const Refusal& refusal) {
    CheckRefusal(refusal);
  }
  return 0;
}
