// SPDX-License-Identifier: MIT
// A checkpoint whose matrices are stored in other formats, each made when it is written.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "oort/language_model.h"
#include "parser/checkpoint/checkpoint.h"

namespace oort {

/// `checkpoint` must outlive what is made of it, and so must `options`.
std::unique_ptr<Checkpoint> MakeQuantized(const Checkpoint& checkpoint,
                                          const ConvertOptions& options);

}  // namespace oort
