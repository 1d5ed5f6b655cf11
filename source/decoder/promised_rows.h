// SPDX-License-Identifier: MIT
// Matrices that are put together of parts of a file when a layer packs them.
#pragma once

#include <cstdint>
#include <memory>

#include "parser/checkpoint/tensor_table.h"

namespace oort {

/// All `rows` of a matrix, as promises: a rank that has some of the rows reads those alone.
StoredMatrix PromisedRows(const std::shared_ptr<const CheckpointMatrix>& from, int64_t rows);

}  // namespace oort
