// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

namespace oort::text {

/// The bytes of a base64 text; throws kInvalidModel where it is none, naming it by `what`.
std::string DecodeBase64(std::string_view text, std::string_view what);

std::string EncodeBase64(std::string_view bytes);

}  // namespace oort::text
