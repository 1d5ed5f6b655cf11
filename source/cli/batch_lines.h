// SPDX-License-Identifier: MIT
// Lines of `oort batch`: what comes in, and what goes out for each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "openai/generate_call.h"

namespace oort::cli {

/// Reads a file line by line without ever holding more than one.
class LineReader {
 public:
  /// "-" for the standard input. Throws kNotFound or kIo.
  explicit LineReader(const std::string& path, size_t most_bytes);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// The next line without its end; false behind the last. `cut` where it has more than most_bytes,
  /// of which the first are given.
  bool Next(std::string& line, bool& cut);
  int64_t number() const { return number_; }  ///< of the last line, from 1
  /// Lines of the whole file; 0 where it cannot be read twice.
  int64_t CountLines() const;

 private:
  bool Fill();

  int fd_ = -1;
  std::string path_, buffer_;
  size_t at_ = 0, most_bytes_;
  int64_t number_ = 0;
};

/// What a line asks for.
// NOLINTNEXTLINE(bugprone-exception-escape): a moved Json throws nothing, but does not say so.
struct BatchLine {
  enum Kind : unsigned char { kPlain, kChat, kCompletions, kEmbeddings };
  int64_t number = 0;
  Kind kind = kPlain;
  std::string custom_id;  ///< a plain line may have none
  std::string prompt;     ///< of a plain line
  openai::Json body;      ///< of the others
};

/// Throws a RequestError for a line that is neither a request of OpenAI's batch format nor a plain
/// prompt. `line` then has its number, and its custom_id where that could be read.
void ReadBatchLine(std::string_view text, BatchLine& line);

/// A line of the output, without its end. `body` is JSON.
std::string AnswerLine(const BatchLine& line, int status, std::string_view body);
std::string PlainAnswerLine(const BatchLine& line, const GenerateResult& result,
                            int64_t prompt_tokens);
/// The vector of a plain text.
std::string PlainVectorLine(const BatchLine& line, std::span<const float> vector, int64_t tokens);
/// For a line that could not be answered.
std::string ErrorLine(const BatchLine& line, const openai::ApiError& error);
/// For a line that could not even be read.
std::string BadLine(const BatchLine& line, const openai::ApiError& error);

}  // namespace oort::cli
