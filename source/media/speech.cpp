// SPDX-License-Identifier: MIT
#include "oort/speech.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "oort/error.h"

namespace oort {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr int32_t kLatestBegin = 50;  // in steps of 0.02 s
constexpr double kTimestep = 0.02;
constexpr int64_t kFramesOfTimestep = 2;

/// Ranges grow by `padding` to both sides; two that would overlap meet in the middle.
void PadRanges(std::vector<SampleRange>& ranges, int64_t samples, int64_t padding) {
  if (ranges.empty()) return;
  ranges.front().begin = std::max<int64_t>(0, ranges.front().begin - padding);
  ranges.back().end = std::min(samples, ranges.back().end + padding);
  for (size_t i = 0; i + 1 < ranges.size(); ++i) {
    const int64_t silence = ranges[i + 1].begin - ranges[i].end;
    const int64_t grown = silence < 2 * padding ? silence / 2 : padding;
    ranges[i].end += grown;
    ranges[i + 1].begin -= grown;
  }
}

void Forbid(std::span<float> logits, int64_t from, int64_t to) {
  from = std::max<int64_t>(from, 0);
  to = std::min(to, static_cast<int64_t>(logits.size()));
  for (int64_t i = from; i < to; ++i) logits[static_cast<size_t>(i)] = kNever;
}

void ForbidAll(std::span<float> logits, std::span<const int32_t> ids) {
  for (const int32_t id : ids) Forbid(logits, id, int64_t{id} + 1);
}

/// Whether all of `many` together are likelier than each of `others`.
bool LikelierTogether(std::span<const float> many, std::span<const float> others) {
  const float most = *std::max_element(many.begin(), many.end());
  const float rival = *std::max_element(others.begin(), others.end());
  if (most == kNever) return false;
  double sum = 0;
  for (const float logit : many) sum += std::exp(static_cast<double>(logit - most));
  return static_cast<double>(most) + std::log(sum) > static_cast<double>(rival);
}

int32_t Named(const Tokenizer& tokenizer, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (const auto id = tokenizer.IdOf(name)) return *id;
  }
  throw Error(
      ErrorCode::kInvalidModel,
      "the tokenizer has no token " + std::string(*names.begin()) + ": it is not one of Whisper");
}

}  // namespace

std::vector<SampleRange> FindSpeech(std::span<const float> probabilities, int64_t samples,
                                    const SpeechOptions& options) {
  const auto in_samples = [&](double seconds) {
    return static_cast<int64_t>(seconds * options.rate);
  };
  std::vector<SampleRange> ranges;
  bool speaking = false, quiet = false;
  SampleRange range;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) * options.window;
    if (probabilities[i] >= options.threshold) {
      if (!speaking) range.begin = at;
      speaking = true;
      quiet = false;
    } else if (speaking && probabilities[i] < options.silence) {
      if (!quiet) range.end = at;
      quiet = true;
      if (at - range.end < in_samples(options.least_silence)) continue;
      ranges.push_back(range);
      speaking = quiet = false;
    }
  }
  if (speaking && range.begin < samples) ranges.push_back({range.begin, samples});
  PadRanges(ranges, samples, in_samples(options.padding));
  return ranges;
}

std::vector<float> JoinRanges(std::span<const float> samples, std::span<const SampleRange> ranges) {
  std::vector<float> joined;
  for (const SampleRange& range : ranges) {
    if (range.begin < 0 || range.begin > range.end ||
        range.end > static_cast<int64_t>(samples.size())) {
      throw Error(ErrorCode::kInvalidArgument,
                  "JoinRanges: samples " + std::to_string(range.begin) + " up to " +
                      std::to_string(range.end) + " of " + std::to_string(samples.size()));
    }
    joined.insert(joined.end(), samples.begin() + range.begin, samples.begin() + range.end);
  }
  return joined;
}

double TimeInWhole(std::span<const SampleRange> ranges, int rate, double seconds, bool is_end) {
  const auto sample = static_cast<int64_t>(seconds * rate);
  int64_t joined = 0, left_out = 0, last = 0;
  for (const SampleRange& range : ranges) {
    left_out += range.begin - last;
    last = range.end;
    joined += range.end - range.begin;
    if (sample < joined || (is_end && sample == joined)) break;
  }
  return static_cast<double>(left_out) / rate + seconds;
}

WhisperTokens WhisperTokens::Of(const Tokenizer& tokenizer) {
  WhisperTokens tokens;
  tokens.end = Named(tokenizer, {"<|endoftext|>"});
  tokens.start = Named(tokenizer, {"<|startoftranscript|>"});
  tokens.no_speech = Named(tokenizer, {"<|nospeech|>", "<|nocaptions|>"});
  tokens.transcribe = Named(tokenizer, {"<|transcribe|>"});
  tokens.no_timestamps = Named(tokenizer, {"<|notimestamps|>"});
  tokens.timestamps = tokens.no_timestamps + 1;
  return tokens;
}

WhisperRules::WhisperRules(const WhisperTokens& tokens, std::vector<int32_t> suppressed,
                           std::vector<int32_t> not_first)
    : tokens_(tokens), suppressed_(std::move(suppressed)), not_first_(std::move(not_first)) {}

void WhisperRules::Apply(std::span<const int32_t> written, std::span<float> logits) const {
  const int32_t first = tokens_.timestamps;
  const auto size = static_cast<int64_t>(logits.size());
  if (first <= 0 || first >= size) {
    throw Error(ErrorCode::kInvalidArgument, "WhisperRules: timestamps begin at token " +
                                                 std::to_string(first) + ", and there are " +
                                                 std::to_string(size) + " logits");
  }
  ForbidAll(logits, suppressed_);
  Forbid(logits, tokens_.no_timestamps, int64_t{tokens_.no_timestamps} + 1);
  if (written.empty()) {
    ForbidAll(logits, not_first_);
    Forbid(logits, 0, first);
    Forbid(logits, int64_t{first} + kLatestBegin + 1, size);
    return;
  }
  const int32_t last = written.back();
  if (last >= first) {
    const bool pair = written.size() == 1 || written[written.size() - 2] >= first;
    if (!pair) Forbid(logits, 0, tokens_.end);
    Forbid(logits, first, pair ? size : last);
  } else {
    const auto is_time = [&](int32_t token) { return token >= first; };
    const auto time = std::find_if(written.rbegin(), written.rend(), is_time);
    if (time != written.rend()) Forbid(logits, first, int64_t{*time} + 1);
  }
  const auto texts = static_cast<size_t>(first);
  if (LikelierTogether(logits.subspan(texts), logits.first(texts))) Forbid(logits, 0, first);
}

WhisperWindow SplitWindow(std::span<const int32_t> written, int32_t timestamps, int64_t frames) {
  WhisperWindow window;
  window.frames = std::max<int64_t>(frames, 1);
  const auto is_time = [&](size_t i) { return written[i] >= timestamps; };
  const auto steps = [&](size_t i) { return int64_t{written[i]} - timestamps; };
  const auto seconds = [&](size_t i) { return static_cast<double>(steps(i)) * kTimestep; };
  const size_t size = written.size();
  const bool ends_with_one = size >= 2 && is_time(size - 1) && !is_time(size - 2);
  size_t begin = 0;
  const auto take = [&](size_t end) {
    const auto part = written.subspan(begin, end - begin);
    window.segments.push_back({seconds(begin), seconds(end - 1), {part.begin(), part.end()}});
    begin = end;
  };
  for (size_t i = 1; i < size; ++i) {
    if (is_time(i) && is_time(i - 1)) take(i);
  }
  if (begin == 0) {  // one segment alone
    double end = static_cast<double>(frames) / 100;
    for (size_t i = size; i-- > 0;) {
      if (!is_time(i)) continue;
      if (steps(i) > 0) end = seconds(i);
      break;
    }
    window.segments.push_back({0, end, {written.begin(), written.end()}});
  } else if (ends_with_one) {
    take(size);
  } else {
    window.frames = std::max<int64_t>(1, steps(begin - 1) * kFramesOfTimestep);
  }
  return window;
}

}  // namespace oort
