// SPDX-License-Identifier: MIT
#include <chrono>
#include <iostream>

#include "cli/command.h"
#include "cli/device_option.h"
#include "cli/text.h"
#include "cli/text_reader.h"
#include "oort/reranker.h"
#include "text/utf8.h"

namespace oort::cli {
namespace {

struct RerankArguments {
  std::string model, query;
  std::vector<std::string> files;
  DeviceOption device;
  int64_t top = 0, max_tokens = 0;
  int threads = 0;
  bool lines = false, raw = false, json = false;
};

/// A text, and where it stands.
struct Document {
  std::string name, text;
};

/// Of each file its text, or of a .jsonl, the standard input, and with --lines of all, each line.
std::vector<Document> ReadDocuments(const RerankArguments& options) {
  std::vector<Document> documents;
  for (const std::string& file : options.files) {
    if (!options.lines && !file.ends_with(".jsonl") && file != "-") {
      documents.push_back({file, ReadTextFile(file)});
      if (text::IsValidUtf8(documents.back().text)) continue;
      throw Error(ErrorCode::kInvalidArgument, file + ": no valid UTF-8");
    }
    TextReader reader(file);
    int64_t line = 0;
    for (auto some = reader.Next(); !some.empty(); some = reader.Next()) {
      for (std::string& text : some) {
        documents.push_back({file + ":" + std::to_string(++line), std::move(text)});
      }
    }
  }
  if (documents.empty()) throw UsageError("the files have no texts");
  return documents;
}

/// The beginning of a text in one line of some width.
std::string Beginning(const std::string& text) {
  constexpr size_t kMostBytes = 60;
  size_t end = text.size();
  if (end > kMostBytes) {
    end = kMostBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  }
  return SingleLine(std::string_view(text).substr(0, end)) + (end < text.size() ? "…" : "");
}

void PrintText(const std::vector<Document>& documents, const RerankScores& scores,
               const std::vector<size_t>& places, int64_t most_tokens) {
  Table table({{"score", Table::kRight}, {"text"}, {""}});
  for (const size_t place : places) {
    table.Row({FormatFixed(scores.values[place], 4), documents[place].name,
               Beginning(documents[place].text)});
  }
  table.Print(std::cout);
  if (scores.truncated > 0) {
    std::cout << scores.truncated << " of " << documents.size()
              << " texts were cut, with the query, to " << most_tokens << " tokens\n";
  }
}

int Rerank(const RerankArguments& options) {
  if (options.query.empty()) throw UsageError("--query is empty");
  if (!text::IsValidUtf8(options.query)) throw UsageError("--query is no valid UTF-8");
  RerankerOptions load;
  load.raw_scores = options.raw;
  load.max_tokens = options.max_tokens;
  load.threads = options.threads;
  load.device = options.device.Get();
  const std::vector<Document> documents = ReadDocuments(options);
  std::vector<std::string> texts;
  texts.reserve(documents.size());
  for (const Document& document : documents) texts.push_back(document.text);
  Reranker reranker(options.model, load);
  const auto start = std::chrono::steady_clock::now();
  const RerankScores scores = reranker.Score(options.query, texts);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const std::vector<size_t> places = BestScores(scores.values, static_cast<size_t>(options.top));
  if (!options.json) {
    PrintText(documents, scores, places, reranker.max_tokens());
    return 0;
  }
  Json results = Json::array();
  for (const size_t place : places) {
    results.push_back({{"index", place},
                       {"relevance_score", scores.values[place]},
                       {"name", documents[place].name},
                       {"document", {{"text", documents[place].text}}}});
  }
  Print(std::cout, {{"model", options.model},
                    {"query", options.query},
                    {"results", std::move(results)},
                    {"tokens", scores.tokens},
                    {"truncated", scores.truncated},
                    {"seconds", seconds.count()}});
  return 0;
}

}  // namespace

Action AddRerank(CLI::App& app) {
  auto options = std::make_shared<RerankArguments>();
  app.add_option("MODEL", options->model,
                 "A reranker: a folder of Hugging Face whose model scores a query and a text")
      ->required();
  app.add_option(
         "FILES", options->files,
         "Texts, one a file; of a .jsonl one a line, a string or an object with a \"text\"; "
         "- reads lines of the standard input")
      ->required();
  app.add_option("--query", options->query, "What the texts should answer")->required();
  app.add_flag("--lines", options->lines, "Each line of the files is a text");
  app.add_option("--top", options->top, "Show so many of the best (default: all)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_flag("--raw-scores", options->raw,
               "Scores as the model's head gives them (default: as the model says, mostly its "
               "sigmoid, from 0 to 1)");
  app.add_option("--max-tokens", options->max_tokens,
                 "Tokens of query and text at most; the rest is cut off (default: as the model "
                 "says)")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  options->device.Add(app);
  AddThreads(app, options->threads);
  app.add_flag("--json", options->json, "Print the results as JSON");
  app.footer("Example: oort rerank bge-reranker-base --query \"What is a comet?\" notes/*.txt");
  return [options] { return Rerank(*options); };
}

}  // namespace oort::cli
