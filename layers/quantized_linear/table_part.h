// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "oort/layer.h"

namespace oort {

/// Which rows of a table of embeddings a rank has: `rows` of `all` from `first` on.
struct TablePart {
  int64_t first = 0, rows = 0, all = 0;

  TablePart() = default;
  TablePart(const LayerInit& init, int64_t rows_here)
      : first(init.Int("first_row")), rows(rows_here), all(init.Int("all_rows")) {
    if (all == 0) all = rows;
    if (first <= all - rows) return;
    throw Error(ErrorCode::kInvalidModel, "a part of " + std::to_string(rows) + " rows from row " +
                                              std::to_string(first) + " on is not in a table of " +
                                              std::to_string(all));
  }
};

}  // namespace oort
