// SPDX-License-Identifier: MIT
// What answers the lines of `oort batch`, many at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "cli/batch_lines.h"
#include "cli/language.h"
#include "oort/embedder.h"
#include "openai/embeddings.h"

namespace oort::cli {

struct BatchAnswer {
  std::string line;  ///< of the output
  bool ok = false;
  int64_t prompt_tokens = 0, completion_tokens = 0;
};

using AnswerSink = std::function<void(const BatchAnswer&)>;

/// Lines go in, answers come out in any order. A line that cannot be answered gets an answer that
/// says why; what is thrown ends the run.
class BatchWorker {
 public:
  virtual ~BatchWorker() = default;
  /// Whether another line may come in.
  virtual bool HasRoom() const = 0;
  virtual void Add(BatchLine line, const AnswerSink& sink) = 0;
  /// Goes on with what it has; false when there is nothing left.
  virtual bool Step(const AnswerSink& sink) = 0;
};

/// How plain prompts are answered.
struct PlainOptions {
  AnswerOptions answer;
  std::string system;
  bool raw = false;
};

/// Answers by a language model.
class LanguageWorker : public BatchWorker {
 public:
  LanguageWorker(openai::ServedModel served, const EngineOptions& options, PlainOptions plain,
                 int64_t most_requests);

  bool HasRoom() const override { return requests_ < most_requests_; }
  void Add(BatchLine line, const AnswerSink& sink) override;
  bool Step(const AnswerSink& sink) override;

 private:
  struct Job {
    BatchLine line;
    openai::GenerateCall call;
    std::vector<int64_t> pending;         ///< numbers of requests, -1 for those that are done
    std::vector<GenerateResult> results;  ///< as the requests stand
    std::exception_ptr failure;
  };

  openai::GenerateCall CallOf(const BatchLine& line) const;
  openai::GenerateCall PlainCall(const BatchLine& line) const;
  /// Whether all of its requests are done.
  bool Collect(Job& job);
  BatchAnswer Finish(const Job& job) const;

  openai::ServedModel served_;
  PlainOptions plain_;
  Engine engine_;
  int64_t most_requests_, requests_ = 0;
  std::list<Job> jobs_;
};

/// Vectors by an encoder.
class EmbeddingWorker : public BatchWorker {
 public:
  EmbeddingWorker(Embedder embedder, std::string name);

  bool HasRoom() const override;
  void Add(BatchLine line, const AnswerSink& sink) override;
  bool Step(const AnswerSink& sink) override;

 private:
  struct Job {
    BatchLine line;
    openai::EmbeddingsCall call;
    size_t first = 0;  ///< of its texts among all
    int64_t tokens = 0;
  };

  std::vector<int32_t> Encode(const std::variant<std::string, std::vector<int32_t>>& input) const;

  Embedder embedder_;
  std::string name_;
  std::vector<Job> jobs_;
  std::vector<std::vector<int32_t>> texts_;
};

}  // namespace oort::cli
