// SPDX-License-Identifier: MIT
#pragma once

#include "oort/tokenizer.h"
#include "parser/checkpoint/tokenizer_source.h"

namespace oort::tokenizer {

/// The tokenizer of a checkpoint; throws kNotFound where its files have none.
Tokenizer TokenizerOf(const TokenizerSource& source);

}  // namespace oort::tokenizer
