// SPDX-License-Identifier: MIT
// Writes down what is said in recordings, and when: Whisper, behind silero-vad, which leaves out
// silence.
//   listen MODEL_FOLDER SOUND.wav... [--language CODE] [--whole] [--fast]
// MODEL_FOLDER has the networks encoder, decoder and voice (.pnnx.param and .bin), tokenizer.json,
// suppressed.txt and languages.txt, as tools/export-model.py writes them. --whole hears silence,
// too; --fast multiplies in bf16.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "oort/audio.h"
#include "oort/oort.h"
#include "oort/speech.h"
#include "oort/tokenizer.h"

namespace {

namespace fs = std::filesystem;
constexpr int kRate = 16000;
constexpr size_t kMostTokens = 224;
constexpr double kSurelySilent = 0.6, kUnsure = -1;  // a chance, and a mean logarithm of chances

struct Options {
  std::string language;
  bool whole = false, fast = false;
};

std::vector<std::string> ReadLines(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// Numbers of a line of the file; none where it has no such line.
std::vector<int32_t> ReadIds(const fs::path& path, size_t line) {
  const std::vector<std::string> lines = ReadLines(path);
  std::istringstream words(line < lines.size() ? lines[line] : "");
  std::vector<int32_t> ids;
  for (int32_t id = 0; words >> id;) ids.push_back(id);
  return ids;
}

int32_t Argmax(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

double LogProbability(std::span<const float> logits, int32_t token) {
  const float most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - most));
  return static_cast<double>(logits[static_cast<size_t>(token)] - most) - std::log(sum);
}

class Listener {
 public:
  Listener(const fs::path& folder, const oort::LoadOptions& load, std::string language)
      : networks_(folder, load),
        tokenizer_(oort::Tokenizer::FromFile(folder / "tokenizer.json")),
        tokens_(oort::WhisperTokens::Of(tokenizer_)),
        rules_(tokens_, ReadIds(folder / "suppressed.txt", 0),
               ReadIds(folder / "suppressed.txt", 1)),
        languages_(ReadLines(folder / "languages.txt")),
        told_(std::move(language)) {}

  void Listen(std::span<const float> samples, const std::vector<oort::SampleRange>& speech) {
    const std::vector<float> heard = oort::JoinRanges(samples, speech);
    const oort::Tensor sound = oort::WhisperSpectrogram(heard, networks_.mels());
    const int64_t all = sound.dim(1) - 1;
    language_ = told_;
    for (int64_t seek = 0, step = 0; seek < all; seek += step) {
      step = std::min(networks_.frames(), all - seek);
      networks_.Hear(sound, seek, step);
      const std::vector<int32_t> written = Write();
      if (written.empty()) continue;  // nobody speaks
      const oort::WhisperWindow window = oort::SplitWindow(written, tokens_.timestamps, step);
      for (const oort::WhisperSegment& part : window.segments) {
        const double offset = static_cast<double>(seek) / 100;
        const double begin = oort::TimeInWhole(speech, kRate, offset + part.begin, false);
        const double end = oort::TimeInWhole(speech, kRate, offset + part.end, true);
        if (part.begin != part.end) Print(begin, end, part.tokens);
      }
      step = window.frames;
    }
  }

 private:
  /// The tokens of what the networks hear, greedily; none where nobody speaks.
  std::vector<int32_t> Write() {
    std::span<float> logits = networks_.Step(std::array{tokens_.start});
    const double silent = std::exp(LogProbability(logits, tokens_.no_speech));
    if (!languages_.empty())
      logits = networks_.Step(std::array{Language(logits), tokens_.transcribe});
    std::vector<int32_t> written;
    double sum = 0;
    while (true) {
      rules_.Apply(written, logits);
      const int32_t next = Argmax(logits);
      if (silent > kSurelySilent) sum += LogProbability(logits, next);
      if (next == tokens_.end) break;
      written.push_back(next);
      if (written.size() == kMostTokens) break;
      logits = networks_.Step(std::array{next});
    }
    const double mean = sum / static_cast<double>(written.size() + 1);
    if (silent > kSurelySilent && mean <= kUnsure) written.clear();
    return written;
  }

  /// The token of the language, which is found in the first window unless it was told.
  int32_t Language(std::span<const float> logits) {
    float most = -std::numeric_limits<float>::infinity();
    const bool known = !language_.empty();
    for (const std::string& code : languages_) {
      const int32_t id = tokenizer_.IdOf("<|" + code + "|>").value_or(0);
      if (known || logits[static_cast<size_t>(id)] <= most) continue;
      most = logits[static_cast<size_t>(id)];
      language_ = code;
    }
    if (!known) std::printf("language: %s\n", language_.c_str());
    if (const auto id = tokenizer_.IdOf("<|" + language_ + "|>")) return *id;
    throw oort::Error(oort::ErrorCode::kInvalidArgument, "no language '" + language_ + "'");
  }

  void Print(double begin, double end, std::vector<int32_t> tokens) const {
    std::erase_if(tokens, [&](int32_t token) { return token >= tokens_.end; });
    const std::string said = tokenizer_.Decode(tokens);
    if (said.find_first_not_of(' ') == std::string::npos) return;
    std::printf("%8.2f %8.2f %s\n", begin, end, said.c_str());
    std::fflush(stdout);
  }

  oort::WhisperNetworks networks_;
  oort::Tokenizer tokenizer_;
  oort::WhisperTokens tokens_;
  oort::WhisperRules rules_;
  std::vector<std::string> languages_;  // codes; none for a network that knows English alone
  std::string told_, language_;
};

void Listen(const fs::path& model, const std::vector<fs::path>& sounds, const Options& options) {
  oort::LoadOptions load;
  if (options.fast) load.precision = oort::Precision::kBF16;
  Listener listener(model, load, options.language);
  oort::VoiceActivity voice(model);
  for (const fs::path& path : sounds) {
    const oort::Audio sound = oort::Resample(oort::ReadWav(path), kRate);
    const auto start = std::chrono::steady_clock::now();
    const auto all = static_cast<int64_t>(sound.samples.size());
    std::vector<oort::SampleRange> speech = {{0, all}};
    if (!options.whole) speech = oort::FindSpeech(voice.Probabilities(sound.samples), all);
    std::printf("%s: %.2f s\n", path.string().c_str(), sound.seconds());
    if (!speech.empty()) listener.Listen(sound.samples, speech);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("%.3f s of work, %.1f times as fast as it was said\n", took.count(),
                sound.seconds() / took.count());
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<fs::path> sounds;
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--whole") {
      options.whole = true;
    } else if (argument == "--fast") {
      options.fast = true;
    } else if (argument == "--language" && i + 1 < argc) {
      options.language = argv[++i];
    } else {
      sounds.emplace_back(argument);
    }
  }
  if (sounds.size() < 2) {
    std::cerr << "usage: listen MODEL_FOLDER SOUND.wav... [--language CODE] [--whole] [--fast]\n"
                 "  demos/run listen SOUND.wav   fetches Whisper first\n";
    return 2;
  }
  try {
    Listen(sounds[0], {sounds.begin() + 1, sounds.end()}, options);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "listen: " << error.what() << '\n';
    return 1;
  }
}
