// SPDX-License-Identifier: MIT
// What `oort quantize` says of a language model, as a page.
#pragma once

#include <string>
#include <vector>

#include "llm_quantize/quantize_language.h"

namespace oort::cli {

/// Those that lose most first.
std::vector<const llm_quantize::MatrixReport*> RankedMatrices(
    const llm_quantize::LanguageQuantizeResult& result);

/// `summary` is text that stands at the top.
std::string LanguageQuantizeHtml(const std::string& model, const std::string& summary,
                                 const llm_quantize::LanguageQuantizeResult& result);

}  // namespace oort::cli
