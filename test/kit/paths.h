// SPDX-License-Identifier: MIT
// Where tests find their files. Functions rather than macros: what names a folder is one file, and
// all others are compiled alike in every clone.
#pragma once

#include <filesystem>

namespace oort {

std::filesystem::path TestData();    ///< the folder test/
std::filesystem::path SourceTree();  ///< the project's folder

}  // namespace oort
