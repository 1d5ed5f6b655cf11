// SPDX-License-Identifier: MIT
// Answers of a given form: response_format and its relatives.
#pragma once

#include <memory>
#include <mutex>

#include "oort/constraint.h"
#include "oort/grammar.h"
#include "oort/language_model.h"
#include "openai/fields.h"

namespace oort::openai {

/// Makes the constraints of a model. What that takes is made by the first request that asks.
/// Thread contract: any number of threads at once.
class AnswerForms {
 public:
  const GrammarCompiler& For(const LanguageModel& model);

 private:
  std::mutex mutex_;
  std::unique_ptr<GrammarCompiler> compiler_;
};

/// What a request says about the form of its answers.
struct AnswerForm {
  std::shared_ptr<const TokenConstraint> constraint;  ///< null where it says nothing
  bool json = false;                                  ///< answers are JSON
};
/// Throws a RequestError that names the field where that is wrong or not supported.
AnswerForm ReadAnswerForm(Fields& fields, const LanguageModel& model, AnswerForms& forms);

}  // namespace oort::openai
