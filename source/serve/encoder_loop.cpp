// SPDX-License-Identifier: MIT
#include "serve/encoder_loop.h"

#include <utility>

#include "oort/error.h"

namespace oort::serve {
namespace {

/// Texts that run together: enough to fill batches of each length, and a short wait for who comes
/// next.
constexpr size_t kMostTexts = 256;

}  // namespace

EncoderLoop::EncoderLoop(std::variant<Embedder, Reranker> model, std::string name,
                         std::vector<std::string> aliases, int64_t most_tokens)
    : model_(std::move(model)),
      name_(std::move(name)),
      aliases_(std::move(aliases)),
      most_tokens_(most_tokens),
      metrics_(max_tokens()),
      thread_([this] { Run(); }) {}

EncoderLoop::~EncoderLoop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

int64_t EncoderLoop::max_tokens() const {
  return std::visit([](const auto& model) { return model.max_tokens(); }, model_);
}

void EncoderLoop::Submit(std::vector<TokenPair> texts, Wanted wanted, Then then) {
  std::list<Job> one;
  one.push_back({std::move(texts), 0, std::move(wanted), std::move(then)});
  Job& job = one.front();
  for (const TokenPair& text : job.texts) job.tokens += std::ssize(text.ids);
  {
    const std::lock_guard lock(mutex_);
    // One that is alone is always taken: its size has limits of its own.
    if (!jobs_.empty() && tokens_ + job.tokens > most_tokens_) {
      throw Error(ErrorCode::kLimit, "too many texts wait to be encoded: try again later");
    }
    tokens_ += job.tokens;
    jobs_.splice(jobs_.end(), one);
    ++jobs_submitted_;
  }
  wake_.notify_one();
}

void EncoderLoop::Finish() {
  std::unique_lock lock(mutex_);
  const int64_t last = jobs_submitted_;
  ended_.wait(lock, [&] { return jobs_ended_ >= last; });
}

EngineStats EncoderLoop::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.waiting = std::ssize(jobs_);
  stats.waiting_tokens = tokens_;
  return stats;
}

void EncoderLoop::Run() {
  while (true) {
    std::list<Job> jobs;
    bool stop = false;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
      stop = stop_;
      size_t texts = 0;
      while (!jobs_.empty() &&
             (stop || texts == 0 || texts + jobs_.front().texts.size() <= kMostTexts)) {
        texts += jobs_.front().texts.size();
        tokens_ -= jobs_.front().tokens;
        jobs.splice(jobs.end(), jobs_, jobs_.begin());
      }
    }
    if (stop) {
      const auto ended = std::make_exception_ptr(
          Error(ErrorCode::kCancelled, "the server ended before the texts were encoded"));
      for (const Job& job : jobs) Tell(job, {}, ended);
      return;
    }
    const int64_t taken = std::ssize(jobs);
    std::erase_if(jobs, [](const Job& job) { return !job.wanted(); });
    const bool any = !jobs.empty();
    {
      const std::lock_guard lock(mutex_);
      stats_.running = std::ssize(jobs);
      for (const Job& job : jobs) stats_.prompt_tokens += job.tokens;
    }
    if (any) Answer(jobs);
    jobs.clear();  // before Finish may return
    const std::lock_guard lock(mutex_);
    stats_.running = 0;
    stats_.steps += any ? 1 : 0;
    jobs_ended_ += taken;
    ended_.notify_all();
  }
}

std::vector<float> EncoderLoop::Read(const std::vector<TokenPair>& texts) {
  if (auto* reranker = std::get_if<Reranker>(&model_)) return reranker->ScoreTokens(texts).values;
  std::vector<std::vector<int32_t>> ids;
  ids.reserve(texts.size());
  for (const TokenPair& text : texts) ids.push_back(text.ids);
  return std::get<Embedder>(model_).EmbedTokens(ids).values;
}

void EncoderLoop::Tell(const Job& job, std::vector<float> values,
                       const std::exception_ptr& failure) {
  try {
    job.then(std::move(values), failure);
  } catch (...) {
    // What fails for one asker must not end the loop. His reply goes with the job, and so he is
    // told.
  }
}

void EncoderLoop::Answer(const std::list<Job>& jobs) {
  if (jobs.size() == 1) return AnswerAlone(jobs.front());
  std::vector<std::vector<float>> values;
  try {
    std::vector<TokenPair> texts;
    for (const Job& job : jobs) texts.insert(texts.end(), job.texts.begin(), job.texts.end());
    const std::vector<float> all = Read(texts);
    const size_t width = all.size() / texts.size();
    const auto* at = all.data();
    for (const Job& job : jobs) {
      const auto* end = at + job.texts.size() * width;
      values.emplace_back(at, end);
      at = end;
    }
  } catch (...) {
    // What goes wrong for one is not for the others.
    for (const Job& job : jobs) AnswerAlone(job);
    return;
  }
  auto own = values.begin();
  for (const Job& job : jobs) Tell(job, std::move(*own++), nullptr);
}

void EncoderLoop::AnswerAlone(const Job& job) {
  std::vector<float> values;
  std::exception_ptr failure;
  try {
    values = Read(job.texts);
  } catch (...) {
    failure = std::current_exception();
  }
  Tell(job, std::move(values), failure);
}

}  // namespace oort::serve
