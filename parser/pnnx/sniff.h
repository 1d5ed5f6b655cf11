// SPDX-License-Identifier: MIT
// Recognises files that are something else, so that the message can say what they are.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "oort/source.h"

namespace oort::pnnx {

/// What the file is, if it is one of the usual mistakes ("it is a web page …"); else empty.
std::string_view ForeignFile(const ByteSource& file);
/// Throws kInvalidModel, naming what the file is, unless it may be a .param.
void CheckLooksLikeParam(const ByteSource& param);
/// Throws kInvalidModel, naming what the file is, unless it may be a zip.
void CheckLooksLikeBin(const ByteSource& bin);

}  // namespace oort::pnnx
