// SPDX-License-Identifier: MIT
// Speaks: phonemes from standard input become a WAV file, by a Piper voice (VITS, Kim et al. 2021).
//   espeak-ng -q --ipa -v en-us "Hello, world." | speak MODEL_FOLDER OUT.wav
//       [--slower FACTOR] [--noise N] [--time-noise N] [--seed N]
// One network tells for each phoneme what it sounds like and how long it lasts, a second one makes
// a wave of all frames. With --noise 0 --time-noise 0 nothing is drawn between them.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "oort/audio.h"
#include "oort/oort.h"

namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostFrames = 30'000;  // some minutes

struct Options {
  std::vector<fs::path> places;  // model, out
  float slower = 1, noise = -1, time_noise = -1;
  uint64_t seed = 0;
};

/// voice.txt, as tools/export-model.py writes it.
struct Voice {
  int rate = 22050;
  float noise = 0.667F, time_noise = 0.8F;
  std::map<std::string, int64_t> phonemes;  ///< of a character each

  explicit Voice(const fs::path& path) {
    std::ifstream file(path);
    if (!file) throw oort::Error(oort::ErrorCode::kNotFound, "there is no " + path.string());
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string key;
      words >> key;
      if (key == "rate") words >> rate;
      if (key == "noise") words >> noise;
      if (key == "time_noise") words >> time_noise;
      if (key != "phoneme") continue;
      int64_t number = 0;
      words >> number;
      words.get();
      std::getline(words, key);  // the rest: a space is a phoneme, too
      phonemes[key] = number;
    }
  }
  int64_t At(const std::string& phoneme) const {
    const auto found = phonemes.find(phoneme);
    if (found != phonemes.end()) return found->second;
    throw oort::Error(oort::ErrorCode::kInvalidModel, "the voice has no phoneme '" + phoneme + "'");
  }
};

/// Characters of UTF-8; lines are clauses, with a pause between and a stop at the end.
std::vector<std::string> Characters(std::string text) {
  text.erase(text.find_last_not_of(" \r\n\t") + 1);
  std::vector<std::string> list;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    const std::string one = text.substr(at, end - at);
    at = end;
    if (one != "\n") {
      list.push_back(one);
    } else {
      list.insert(list.end(), {",", " "});
    }
  }
  if (!list.empty()) list.push_back(".");
  return list;
}

/// Numbers of phonemes as voices are trained: one that says nothing stands behind each.
oort::Tensor Numbers(const Voice& voice, const std::string& text) {
  const int64_t nothing = voice.At("_");
  std::vector<int64_t> numbers = {voice.At("^"), nothing};
  for (const std::string& one : Characters(text)) {
    const auto found = voice.phonemes.find(one);
    if (found == voice.phonemes.end()) continue;  // marks that the voice was not trained with
    numbers.insert(numbers.end(), {found->second, nothing});
  }
  if (numbers.size() == 2) {
    throw oort::Error(oort::ErrorCode::kInvalidArgument, "there are no phonemes to speak");
  }
  numbers.push_back(voice.At("$"));
  return oort::Tensor::From(std::span<const int64_t>(numbers), {1, std::ssize(numbers)});
}

struct Draws {
  std::mt19937_64 engine;
  std::normal_distribution<float> normal;
  float Next() { return normal(engine); }
};

/// Each phoneme's mean, so often as it lasts frames, with what is drawn around it.
oort::Tensor Frames(const std::vector<oort::Tensor>& told, const Options& options, float noise,
                    Draws& draws) {
  const oort::Tensor &mean = told.at(0), &deviation = told.at(1), &time = told.at(2);
  const int64_t channels = mean.dim(1), phonemes = mean.dim(2);
  std::vector<int64_t> lasts;
  int64_t frames = 0;
  for (const float logarithm : time.span<float>()) {
    const double count = std::ceil(std::exp(std::min(logarithm, 20.0F)) * options.slower);
    lasts.push_back(static_cast<int64_t>(std::clamp<double>(count, 1, kMostFrames)));
    frames += lasts.back();
  }
  if (frames > kMostFrames) {
    throw oort::Error(oort::ErrorCode::kLimit, "the text is too long to be spoken at once");
  }
  oort::Tensor made(oort::DType::kF32, {1, channels, frames});
  float* to = made.data<float>();
  for (int64_t channel = 0; channel < channels; ++channel) {
    for (int64_t i = 0; i < phonemes; ++i) {
      const float middle = mean.data<float>()[channel * phonemes + i];
      const float wide = noise * std::exp(deviation.data<float>()[channel * phonemes + i]);
      for (int64_t k = 0; k < lasts[static_cast<size_t>(i)]; ++k) {
        *to++ = middle + (noise > 0 ? wide * draws.Next() : 0);
      }
    }
  }
  return made;
}

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    float* const number = argument == "--slower"       ? &options.slower
                          : argument == "--noise"      ? &options.noise
                          : argument == "--time-noise" ? &options.time_noise
                                                       : nullptr;
    if (number != nullptr && i + 1 < argc) {
      *number = std::clamp(std::strtof(argv[++i], nullptr), 0.0F, 10.0F);
    } else if (argument == "--seed" && i + 1 < argc) {
      options.seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      options.places.emplace_back(argument);
    }
  }
  return options;
}

oort::Session Load(const fs::path& folder, const std::string& name) {
  return oort::Session(
      oort::RuntimeGraph::Load(folder / (name + ".pnnx.param"), folder / (name + ".pnnx.bin")));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = Parse(argc, argv);
    if (options.places.size() != 2) {
      std::cerr << "usage: espeak-ng -q --ipa TEXT | speak MODEL_FOLDER OUT.wav\n"
                   "  demos/run speak TEXT OUT.wav   fetches a voice of Piper first\n";
      return 2;
    }
    const Voice voice(options.places[0] / "voice.txt");
    oort::Session phonemes = Load(options.places[0], "phonemes");
    oort::Session sound = Load(options.places[0], "sound");
    const oort::Tensor numbers = Numbers(
        voice, {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()});
    const auto start = std::chrono::steady_clock::now();
    Draws draws{std::mt19937_64(options.seed), {}};
    const float time_noise = options.time_noise < 0 ? voice.time_noise : options.time_noise;
    const float noise = options.noise < 0 ? voice.noise : options.noise;
    oort::Tensor drawn(oort::DType::kF32, {1, 2, numbers.dim(1)});
    std::generate_n(drawn.data<float>(), drawn.elements(),
                    [&] { return time_noise * draws.Next(); });
    const std::vector<oort::Tensor> told = phonemes.Forward({numbers, drawn});
    const oort::Tensor wave = sound.Forward({Frames(told, options, noise, draws)}).at(0);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    const std::span<const float> samples = wave.span<float>();
    const oort::Audio audio{voice.rate, {samples.begin(), samples.end()}};
    oort::WriteWav(options.places[1], audio);
    const double seconds = static_cast<double>(audio.samples.size()) / voice.rate;
    std::printf("%.2f s of speech in %.2f s: %s\n", seconds, took.count(),
                options.places[1].string().c_str());
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "speak: " << error.what() << '\n';
    return 1;
  }
}
