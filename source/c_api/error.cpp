// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdlib>
#include <new>

#include "c_api/border.h"

namespace oort::c_api {
namespace {

/// For when there is no memory for another; never freed.
oort_error* NoMemory() noexcept {
  static oort_error error(Error::OutOfMemory());
  return &error;
}

const Problem* ProblemOf(const oort_error* error, size_t index) noexcept {
  if (error == nullptr || index >= error->error.problems().size()) return nullptr;
  return &error->error.problems()[index];
}

}  // namespace

oort_code Fail(oort_error** error, const Error& thrown) noexcept {
  if (error != nullptr) {
    auto* made = new (std::nothrow) oort_error(thrown);
    *error = made != nullptr ? made : NoMemory();
  }
  return static_cast<oort_code>(thrown.code()) + 1;
}

void Need(const void* pointer, std::string_view what) {
  if (pointer == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, std::string(what) + " is NULL");
  }
}

void* AllocateForCaller(size_t count, size_t size) {
  void* memory = std::calloc(count == 0 ? 1 : count, size);
  if (memory == nullptr) throw Error::OutOfMemory();
  return memory;
}

void GiveText(const std::string& given, char** text, size_t* length) {
  auto* copy = static_cast<char*>(AllocateForCaller(given.size() + 1, 1));
  std::copy(given.begin(), given.end(), copy);
  *text = copy;
  if (length != nullptr) *length = given.size();
}

}  // namespace oort::c_api

using oort::c_api::ProblemOf;

oort_code oort_error_code(const oort_error* error) {
  return error == nullptr ? OORT_OK : static_cast<oort_code>(error->error.code()) + 1;
}

const char* oort_error_name(const oort_error* error) {
  return error == nullptr ? "" : oort::Name(error->error.code()).data();
}

const char* oort_error_message(const oort_error* error) {
  return error == nullptr ? "" : error->error.what();
}

size_t oort_error_problem_count(const oort_error* error) {
  return error == nullptr ? 0 : error->error.problems().size();
}

const char* oort_error_problem(const oort_error* error, size_t index) {
  const oort::Problem* problem = ProblemOf(error, index);
  return problem == nullptr ? "" : problem->message.c_str();
}

const char* oort_error_problem_operator(const oort_error* error, size_t index) {
  const oort::Problem* problem = ProblemOf(error, index);
  return problem == nullptr ? "" : problem->operator_name.c_str();
}

int32_t oort_error_problem_line(const oort_error* error, size_t index) {
  const oort::Problem* problem = ProblemOf(error, index);
  return problem == nullptr ? 0 : problem->line;
}

void oort_error_free(oort_error* error) {
  if (error != oort::c_api::NoMemory()) delete error;
}

void oort_free(void* memory) { std::free(memory); }
