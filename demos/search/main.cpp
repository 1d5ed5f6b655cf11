// SPDX-License-Identifier: MIT
// Finds passages of your own text files by what they mean.
//   search index MODEL_FOLDER INDEX FILE_OR_FOLDER...     .txt and .md of folders; paragraphs
//   become vectors search find  MODEL_FOLDER INDEX QUESTION [--top K]
// INDEX is a folder: vectors.npy with a row for each passage, and passages.txt with
// "file<TAB>line<TAB>text".
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "oort/embedder.h"
#include "oort/npy.h"
#include "oort/oort.h"

namespace {

namespace fs = std::filesystem;
constexpr size_t kLongestPassage = 1200;  // bytes: about what MiniLM reads of a text

struct Passage {
  std::string file;
  size_t line = 0;
  std::string text;
};

/// The text files of a place, sorted by name.
std::vector<fs::path> TextsOf(const fs::path& place) {
  if (!fs::is_directory(place)) return {place};
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(place)) {
    const std::string ending = entry.path().extension().string();
    if (entry.is_regular_file() && (ending == ".txt" || ending == ".md")) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// Paragraphs, their lines joined; a long one is cut between lines.
void ReadPassages(const fs::path& path, std::vector<Passage>& passages) {
  std::ifstream file(path);
  if (!file) {
    throw oort::Error(oort::ErrorCode::kNotFound, "cannot read '" + path.string() + "'");
  }
  Passage passage{path.string(), 0, ""};
  const auto end = [&] {
    if (!passage.text.empty()) passages.push_back(passage);
    passage.text.clear();
  };
  size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::replace_if(
        line.begin(), line.end(), [](char c) { return c == '\t' || c == '\r'; }, ' ');
    const size_t first = line.find_first_not_of(' ');
    if (first == std::string::npos || passage.text.size() + line.size() > kLongestPassage) end();
    if (first == std::string::npos) continue;
    if (passage.text.empty()) passage.line = number;
    if (!passage.text.empty()) passage.text += ' ';
    passage.text += line.substr(first);
  }
  end();
}

int Index(const fs::path& model, const fs::path& index, const std::vector<fs::path>& places) {
  std::vector<Passage> passages;
  for (const fs::path& place : places) {
    for (const fs::path& path : TextsOf(place)) ReadPassages(path, passages);
  }
  std::vector<std::string> texts;
  for (const Passage& passage : passages) texts.push_back(passage.text);
  oort::Embedder embedder(model);
  const auto start = std::chrono::steady_clock::now();
  const oort::Embeddings vectors = embedder.Embed(texts);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  fs::create_directories(index);
  const auto rows = static_cast<int64_t>(texts.size());
  oort::WriteNpy(index / "vectors.npy",
                 oort::Tensor::From(std::span(vectors.values), {rows, embedder.dimensions()}));
  std::ofstream file(index / "passages.txt");
  for (const Passage& one : passages) {
    file << one.file << '\t' << one.line << '\t' << one.text << '\n';
  }
  if (!file.flush()) throw oort::Error(oort::ErrorCode::kIo, "cannot write " + index.string());
  std::printf("%zu passages, %lld tokens in %.2f s\n", passages.size(),
              static_cast<long long>(vectors.tokens), took.count());
  return 0;
}

std::vector<std::string> ReadLines(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

int Find(const fs::path& model, const fs::path& index, const std::string& question, size_t top) {
  const oort::Tensor vectors = oort::ReadNpy(index / "vectors.npy");
  const std::vector<std::string> passages = ReadLines(index / "passages.txt");
  oort::Embedder embedder(model);
  const auto count = static_cast<int64_t>(passages.size());
  if (vectors.rank() != 2 || vectors.dim(0) != count || vectors.dim(1) != embedder.dimensions()) {
    throw oort::Error(oort::ErrorCode::kInvalidArgument,
                      "'" + index.string() + "' is no index of this model; make it again");
  }
  const oort::Embeddings asked = embedder.Embed(std::span(&question, 1));
  std::vector<float> scores(passages.size());
  const auto width = static_cast<size_t>(vectors.dim(1));
  for (size_t i = 0; i < scores.size(); ++i) {
    const float* row = vectors.data<float>() + i * width;
    scores[i] = std::inner_product(row, row + width, asked[0].begin(), 0.0f);
  }
  std::vector<size_t> order(passages.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  for (const size_t i : std::span(order).first(std::min(top, order.size()))) {
    const std::string& line = passages[i];
    const size_t first = line.find('\t'), second = line.find('\t', first + 1);
    if (second == std::string::npos) continue;  // no line that this program wrote
    std::printf("%.4f  %s:%s\n    %s\n", static_cast<double>(scores[i]),
                line.substr(0, first).c_str(), line.substr(first + 1, second - first - 1).c_str(),
                line.substr(second + 1).c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  size_t top = 5;
  if (arguments.size() > 2 && arguments[arguments.size() - 2] == "--top") {
    top = std::strtoul(arguments.back().c_str(), nullptr, 10);
    arguments.resize(arguments.size() - 2);
  }
  try {
    if (arguments.size() >= 4 && arguments[0] == "index") {
      return Index(arguments[1], arguments[2], {arguments.begin() + 3, arguments.end()});
    }
    if (arguments.size() == 4 && arguments[0] == "find") {
      return Find(arguments[1], arguments[2], arguments[3], top);
    }
    std::cerr << "usage: search index MODEL_FOLDER INDEX FILE_OR_FOLDER...\n"
                 "       search find MODEL_FOLDER INDEX QUESTION [--top K]\n"
                 "  demos/run search index INDEX docs   fetches MiniLM first\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "search: " << error.what() << '\n';
    return 1;
  }
}
