// SPDX-License-Identifier: MIT
#include "oort/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_map>

#include "core/random.h"
#include "cpu/sampling.h"
#include "llm/sampling/without_logits.h"
#include "oort/error.h"

namespace oort {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
/// Below it logits divided by the temperature leave the range of floats.
constexpr float kGreedy = 1e-5F;

[[noreturn]] void FailOption(const char* name, const char* rule, double value) {
  throw Error(ErrorCode::kInvalidArgument,
              std::string(name) + " must be " + rule + ", not " + std::to_string(value));
}

void CheckOptions(const SamplingOptions& o) {
  const auto finite = [](float value) { return std::isfinite(value); };
  if (!finite(o.temperature) || o.temperature < 0)
    FailOption("temperature", "0 or more", o.temperature);
  if (o.top_k < 0) FailOption("top_k", "0 or more", static_cast<double>(o.top_k));
  if (!(o.top_p > 0 && o.top_p <= 1)) FailOption("top_p", "above 0 and at most 1", o.top_p);
  if (!(o.min_p >= 0 && o.min_p <= 1)) FailOption("min_p", "from 0 to 1", o.min_p);
  if (!finite(o.repetition_penalty) || o.repetition_penalty <= 0) {
    FailOption("repetition_penalty", "above 0", o.repetition_penalty);
  }
  if (!finite(o.presence_penalty)) FailOption("presence_penalty", "a number", o.presence_penalty);
  if (!finite(o.frequency_penalty))
    FailOption("frequency_penalty", "a number", o.frequency_penalty);
  if (o.top_logprobs < -1) FailOption("top_logprobs", "-1 or more", o.top_logprobs);
  for (const auto& [token, bias] : o.logit_bias) {
    if (token < 0) FailOption("a token of logit_bias", "0 or more", token);
    if (std::isnan(bias)) FailOption("a logit_bias", "a number", bias);
  }
}

[[noreturn]] void FailNoToken() {
  throw Error(ErrorCode::kInvalidArgument, "no token can be picked: no logit is above -infinity");
}

/// visit(begin, end) for stretches of values whose largest is not below `floor`, which may rise
/// meanwhile: most have nothing to look at one by one.
template <typename Visit>
void VisitStretches(std::span<const float> values, const SamplingKernels& kernels,
                    const float& floor, const Visit& visit) {
  constexpr size_t kStretch = 128;
  for (size_t begin = 0; begin < values.size(); begin += kStretch) {
    const size_t count = std::min(kStretch, values.size() - begin);
    if (kernels.max(values.data() + begin, static_cast<int64_t>(count)) < floor) continue;
    visit(begin, begin + count);
  }
}

/// The k-th largest value: all of it is read once, and few values are kept.
float KthLargest(std::span<const float> values, size_t k, const SamplingKernels& kernels,
                 std::vector<float>& kept) {
  kept.clear();
  float floor = -kInfinity;
  const auto shrink = [&] {
    std::nth_element(kept.begin(), kept.begin() + static_cast<ptrdiff_t>(k - 1), kept.end(),
                     std::greater<>());
    kept.resize(k);
    floor = kept[k - 1];
  };
  VisitStretches(values, kernels, floor, [&](size_t begin, size_t end) {
    for (const float value : values.subspan(begin, end - begin)) {
      if (!(value > floor)) continue;
      kept.push_back(value);
      if (kept.size() >= 2 * k + 64) shrink();
    }
  });
  if (kept.size() < k) return floor;  // so many equal the floor
  shrink();
  return floor;
}

/// Makes log-probabilities of logits.
struct Normalizer {
  float max;
  double log_total;

  float operator()(float logit) const {
    if (!std::isfinite(max)) return logit == max ? 0.0F : -kInfinity;
    return static_cast<float>(static_cast<double>(logit) - static_cast<double>(max) - log_total);
  }
};

}  // namespace

struct Sampler::State {
  struct Candidate {
    float logit;
    int32_t token;
  };
  static bool Likelier(const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
  }

  SamplingOptions options;
  const SamplingKernels& kernels = SamplingKernelsFor(DefaultIsa());
  RandomSeries random;
  int64_t drawn = 0;
  std::unordered_map<int32_t, int64_t> seen;      ///< how often in the answer; 0: in the prompt
  std::vector<std::pair<int32_t, float>> biases;  ///< of the options, by token, no token twice
  std::vector<LogitChange> changes;
  std::vector<float> adjusted, weights, kept;
  std::vector<Candidate> candidates, ranked;

  explicit State(SamplingOptions given)
      : options(std::move(given)), random(RandomSeries(options.seed).Bits(0)) {
    auto sorted = options.logit_bias;
    const auto token = &std::pair<int32_t, float>::first;
    std::ranges::stable_sort(sorted, {}, token);
    for (const auto& bias : sorted) {
      if (biases.empty() || biases.back().first != bias.first) {
        biases.push_back(bias);
      } else {
        biases.back().second += bias.second;
      }
    }
  }

  LogitChange ChangeOf(int32_t token, float bias, int64_t times) const;
  void FindChanges(size_t size, std::vector<LogitChange>& found) const;
  std::span<const float> Adjust(std::span<const float> logits, std::span<const uint32_t> allowed);
  int32_t Argmax(std::span<const float> logits, float max) const;
  int32_t Draw(std::span<const float> logits, float max);
  void Gather(std::span<const float> logits, float floor);
  void KeepTopP(std::span<const float> logits, float max, float floor);
  int32_t DrawFromAll(std::span<const float> logits, float max);
  int32_t DrawFromCandidates(float max);
  Normalizer NormalizerOf(std::span<const float> logits) const;
  void KeepTop(std::span<const float> values, size_t count);
  void Report(std::span<const float> logits, SampledToken& sampled);
};

Normalizer Sampler::State::NormalizerOf(std::span<const float> logits) const {
  const auto size = static_cast<int64_t>(logits.size());
  const float max = kernels.max(logits.data(), size);
  const double total =
      std::isfinite(max) ? kernels.exp_sum(logits.data(), nullptr, size, max, 1) : 1;
  return {max, std::log(total)};
}

/// Of a token that the prompt or, so many times, the answer has.
LogitChange Sampler::State::ChangeOf(int32_t token, float bias, int64_t times) const {
  float less = 0;
  if (times > 0) {
    less = options.presence_penalty + options.frequency_penalty * static_cast<float>(times);
  }
  return {token, bias, options.repetition_penalty, less};
}

void Sampler::State::FindChanges(size_t size, std::vector<LogitChange>& found) const {
  found.clear();
  if (!biases.empty() && static_cast<size_t>(biases.back().first) >= size) {
    throw Error(ErrorCode::kInvalidArgument, "logit_bias names token " +
                                                 std::to_string(biases.back().first) +
                                                 ", but there are only " + std::to_string(size));
  }
  for (const auto& [token, bias] : biases) {
    const auto at = seen.find(token);
    found.push_back(at == seen.end() ? LogitChange{token, bias}
                                     : ChangeOf(token, bias, at->second));
  }
  if (!DependsOnTokens(options)) return;
  for (const auto& [token, times] : seen) {
    if (token < 0 || static_cast<size_t>(token) >= size) continue;
    if (std::ranges::binary_search(biases, token, {}, &std::pair<int32_t, float>::first)) continue;
    found.push_back(ChangeOf(token, 0, times));
  }
}

/// The logits with biases and penalties, of tokens that are allowed.
std::span<const float> Sampler::State::Adjust(std::span<const float> logits,
                                              std::span<const uint32_t> allowed) {
  FindChanges(logits.size(), changes);
  if (changes.empty() && allowed.empty()) return logits;
  adjusted.assign(logits.begin(), logits.end());
  for (const LogitChange& change : changes) {
    float& logit = adjusted[static_cast<size_t>(change.token)];
    logit = change.Of(logit);
  }
  // Most words of a mask have all bits, or none.
  const size_t words = std::min(allowed.size(), (adjusted.size() + 31) / 32);
  for (size_t word = 0; word < words; ++word) {
    float* const logit = adjusted.data() + 32 * word;
    const size_t count = std::min<size_t>(32, adjusted.size() - 32 * word);
    if (allowed[word] == 0) {
      std::fill_n(logit, count, -kInfinity);
      continue;
    }
    for (uint32_t left = ~allowed[word]; left != 0; left &= left - 1) {
      const auto bit = static_cast<size_t>(std::countr_zero(left));
      if (bit < count) logit[bit] = -kInfinity;
    }
  }
  return adjusted;
}

int32_t Sampler::State::Argmax(std::span<const float> logits, float max) const {
  size_t found = logits.size();
  VisitStretches(logits, kernels, max, [&](size_t begin, size_t end) {
    if (found < logits.size()) return;
    const auto first = logits.begin() + static_cast<ptrdiff_t>(begin);
    const auto last = logits.begin() + static_cast<ptrdiff_t>(end);
    if (const auto at = std::find(first, last, max); at != last) {
      found = static_cast<size_t>(at - logits.begin());
    }
  });
  return static_cast<int32_t>(found);
}

void Sampler::State::Gather(std::span<const float> logits, float floor) {
  candidates.clear();
  VisitStretches(logits, kernels, floor, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (logits[i] >= floor) candidates.push_back({logits[i], static_cast<int32_t>(i)});
    }
  });
}

/// Leaves the most likely candidates whose probabilities reach top_p. Looks at those near the
/// maximum first, which are few and mostly enough, and finds the last one by halves: nothing is
/// sorted.
void Sampler::State::KeepTopP(std::span<const float> logits, float max, float floor) {
  const float scale = 1 / options.temperature;
  const auto mass = [&](std::span<const Candidate> part) {
    double sum = 0;
    for (const Candidate& c : part) sum += static_cast<double>(std::exp((c.logit - max) * scale));
    return sum;
  };
  const double total =
      floor == -kInfinity
          ? kernels.exp_sum(logits.data(), nullptr, static_cast<int64_t>(logits.size()), max, scale)
          : mass(candidates);
  const double target = static_cast<double>(options.top_p) * total;
  for (float depth = 1;; depth *= 2) {
    const float lowest = depth > 600 ? floor : std::max(floor, max - depth * options.temperature);
    Gather(logits, lowest);
    if (lowest == floor || mass(candidates) >= target) break;
  }
  ranked = candidates;
  double before = 0;
  size_t begin = 0, end = ranked.size();
  while (end - begin > 1) {
    const size_t middle = begin + (end - begin) / 2;
    std::nth_element(ranked.begin() + static_cast<ptrdiff_t>(begin),
                     ranked.begin() + static_cast<ptrdiff_t>(middle),
                     ranked.begin() + static_cast<ptrdiff_t>(end), Likelier);
    const double half = mass(std::span(ranked).subspan(begin, middle - begin));
    if (before + half >= target) {
      end = middle;
    } else {
      before += half;
      begin = middle;
    }
  }
  const Candidate last = ranked[begin];
  std::erase_if(candidates, [&](const Candidate& c) { return Likelier(last, c); });
}

/// By position on the sum of all weights, in the order of ids.
int32_t Sampler::State::DrawFromAll(std::span<const float> logits, float max) {
  weights.resize(logits.size());
  const double total =
      kernels.exp_sum(logits.data(), weights.data(), static_cast<int64_t>(logits.size()), max,
                      1 / options.temperature);
  double left = random.Uniform(drawn) * total;
  size_t last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    last = i;
    left -= static_cast<double>(weights[i]);
    if (left < 0) break;
  }
  return static_cast<int32_t>(last);
}

int32_t Sampler::State::DrawFromCandidates(float max) {
  const double scale = 1 / static_cast<double>(options.temperature);
  const auto weight = [&](const Candidate& c) {
    return max == kInfinity
               ? 1.0
               : std::exp((static_cast<double>(c.logit) - static_cast<double>(max)) * scale);
  };
  double total = 0;
  for (const Candidate& c : candidates) total += weight(c);
  double left = random.Uniform(drawn) * total;
  for (const Candidate& c : candidates) {
    left -= weight(c);
    if (left < 0) return c.token;
  }
  return candidates.front().token;
}

int32_t Sampler::State::Draw(std::span<const float> logits, float max) {
  if (max == kInfinity) {  // these share all of the probability
    Gather(logits, kInfinity);
    return DrawFromCandidates(max);
  }
  float floor = -kInfinity;
  if (options.top_k > 0 && static_cast<size_t>(options.top_k) < logits.size()) {
    floor = KthLargest(logits, static_cast<size_t>(options.top_k), kernels, kept);
  }
  const bool limited = floor > -kInfinity;
  if (limited) Gather(logits, floor);
  // The share is the same before and after top_p, so both can be looked at in either order.
  if (options.top_p < 1) KeepTopP(logits, max, floor);
  if (options.min_p > 0) {
    const float least = max + options.temperature * std::log(options.min_p);
    if (!limited && options.top_p >= 1) Gather(logits, least);
    std::erase_if(candidates, [&](const Candidate& c) { return c.logit < least; });
  }
  if (!limited && options.top_p >= 1 && options.min_p <= 0) return DrawFromAll(logits, max);
  return DrawFromCandidates(max);
}

/// The candidates that are the `count` most likely of these values, in order.
void Sampler::State::KeepTop(std::span<const float> values, size_t count) {
  Gather(values, count < values.size() ? KthLargest(values, count, kernels, kept) : -kInfinity);
  const size_t found = std::min(count, candidates.size());
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(found),
                    candidates.end(), Likelier);
  candidates.resize(found);
}

void Sampler::State::Report(std::span<const float> logits, SampledToken& sampled) {
  const Normalizer logprob = NormalizerOf(logits);
  sampled.logprob = logprob(logits[static_cast<size_t>(sampled.token)]);
  const size_t count = std::min(static_cast<size_t>(options.top_logprobs), logits.size());
  if (count == 0) return;
  KeepTop(logits, count);
  for (const Candidate& c : candidates) sampled.top.push_back({c.token, logprob(c.logit)});
}

Sampler::Sampler(SamplingOptions options) {
  CheckOptions(options);
  state_ = std::make_unique<State>(std::move(options));
}
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;
Sampler::~Sampler() = default;

const SamplingOptions& Sampler::options() const { return state_->options; }

void Sampler::AddPrompt(std::span<const int32_t> tokens) {
  if (state_->options.repetition_penalty == 1) return;
  for (const int32_t token : tokens) state_->seen.try_emplace(token, 0);
}

void Sampler::Accept(int32_t token) {
  ++state_->drawn;
  ++state_->seen[token];
}

SampledToken Sampler::Sample(std::span<const float> logits, std::span<const uint32_t> allowed) {
  if (logits.size() > static_cast<size_t>(INT32_MAX)) {
    throw Error(ErrorCode::kInvalidArgument, "there are more logits than token ids");
  }
  if (!allowed.empty() && 32 * allowed.size() < logits.size()) {
    throw Error(ErrorCode::kInvalidArgument, "there are fewer bits of allowed tokens than logits");
  }
  const std::span<const float> changed = state_->Adjust(logits, allowed);
  const float max = state_->kernels.max(changed.data(), static_cast<int64_t>(changed.size()));
  if (max == -kInfinity) FailNoToken();
  SampledToken sampled;
  sampled.token = state_->options.temperature < kGreedy ? state_->Argmax(changed, max)
                                                        : state_->Draw(changed, max);
  if (state_->options.top_logprobs >= 0) state_->Report(logits, sampled);
  Accept(sampled.token);
  return sampled;
}

std::vector<TokenLogprob> Sampler::TopTokens(std::span<const float> logits, int64_t count,
                                             std::span<const uint32_t> allowed) {
  State& state = *state_;
  const Normalizer logprob = state.NormalizerOf(logits);
  state.weights.resize(logits.size());
  std::ranges::transform(logits, state.weights.begin(), logprob);
  const std::span<const float> changed = state.Adjust(state.weights, allowed);
  state.KeepTop(changed, std::min(static_cast<size_t>(count), changed.size()));
  std::vector<TokenLogprob> top;
  for (const State::Candidate& c : state.candidates) {
    if (c.logit > -kInfinity) top.push_back({c.token, c.logit});
  }
  return top;
}

Sampler Sampler::Clone() const {
  Sampler clone;
  clone.state_ = std::make_unique<State>(*state_);
  return clone;
}

SampledToken LogprobOf(std::span<const float> logits, int32_t token, int top) {
  SamplingOptions options;
  options.top_logprobs = top;
  Sampler sampler(std::move(options));
  SampledToken result{token, 0, {}};
  sampler.state_->Report(logits, result);
  return result;
}

double Sampler::NextUniform(int64_t ahead) const {
  return state_->random.Uniform(state_->drawn + ahead);
}

bool OnlyDraws(const SamplingOptions& o) {
  return o.logit_bias.empty() && o.repetition_penalty == 1 && o.presence_penalty == 0 &&
         o.frequency_penalty == 0 && o.top_logprobs < 0;
}

bool PicksArgmax(const SamplingOptions& options) {
  return options.temperature < kGreedy && OnlyDraws(options);
}

bool DependsOnTokens(const SamplingOptions& o) {
  return o.repetition_penalty != 1 || o.presence_penalty != 0 || o.frequency_penalty != 0;
}

cuda::TokenDraw NextDraw(const Sampler& sampler, int64_t ahead) {
  const SamplingOptions& options = sampler.options();
  // The first of those that tie.
  if (options.temperature < kGreedy) return {.top_k = 1, .reported = options.top_logprobs};
  return {.uniform = sampler.NextUniform(ahead),
          .temperature = options.temperature,
          .top_p = options.top_p,
          .min_p = options.min_p,
          .top_k = static_cast<int32_t>(std::min<int64_t>(options.top_k, INT32_MAX)),
          .reported = options.top_logprobs};
}

void FindLogitChanges(const Sampler& sampler, size_t vocabulary,
                      std::vector<LogitChange>& changes) {
  sampler.state_->FindChanges(vocabulary, changes);
}

SampledToken SampleDrawn(Sampler& sampler, int32_t token, const cuda::DrawReport* report) {
  if (token < 0) FailNoToken();
  sampler.Accept(token);
  SampledToken sampled{token, 0, {}};
  if (report == nullptr || sampler.options().top_logprobs < 0) return sampled;
  const Normalizer logprob{report->max, std::log(report->weights)};
  sampled.logprob = logprob(report->drawn);
  auto top = report->top;
  using Logit = cuda::DrawReport::Logit;
  const std::span<Logit> found = std::span(top).first(static_cast<size_t>(report->count));
  std::ranges::sort(found, [](const Logit& a, const Logit& b) {
    return a.value > b.value || (a.value == b.value && a.token < b.token);
  });
  for (const auto& [logit, id] : found) sampled.top.push_back({id, logprob(logit)});
  return sampled;
}

}  // namespace oort
