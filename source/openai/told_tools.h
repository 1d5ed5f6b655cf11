// SPDX-License-Identifier: MIT
// Tools for models whose chat template knows none: they are told of them in a message, as Hermes
// is, and may call them in its way.
#pragma once

#include "oort/language_model.h"

namespace oort::openai {

/// Whether the model's template takes the tools of a request.
bool TemplateKnowsTools(const LanguageModel& model);

/// For a model whose template does not: moves `tools` into the system message, or before what the
/// user says first where the template takes none. Calls of before and their results become text.
void TellOfTools(const LanguageModel& model, ChatInputs& inputs);

}  // namespace oort::openai
