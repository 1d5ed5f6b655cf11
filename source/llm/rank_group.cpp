// SPDX-License-Identifier: MIT
#include "llm/rank_group.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>

#include "core/cpu_limits.h"
#include "core/guard.h"
#include "cuda/memory.h"
#include "cuda/stream.h"
#include "layers/attention/paged/sequence_table.h"
#include "llm/decoder_runner.h"
#include "oort/session.h"

namespace oort {

/// What a follower has for a DecoderRunner of rank 0.
struct RankGroup::Runner {
  std::shared_ptr<const LanguageModel> model;
  KvCache cache;
  std::unique_ptr<cuda::SequenceTable> table;  // where the cache is a GPU's
  std::unique_ptr<cuda::Stream> block_copies;  // there, when it is asked for
  FollowedStates states;
  Session session;
  Tensor logits;  // where they are made: nobody reads them here

  Runner(const std::shared_ptr<const LanguageModel>& shared, const RankMessage& message)
      : model(shared),
        cache(MakeKvCache(*shared, message.kv, message.cache_tokens)),
        table(MakeSequenceTable(*shared, cache)),
        states(shared->state_shape()),
        session(shared->graph(), {.threads = message.threads}) {}

  void Step(RankStep& step, const FollowedTexts& texts, Collective& group) {
    states.Change(step.state_changes);
    for (size_t i = 0; i < step.slices.size(); ++i) {
      step.slices[i].state = states.At(step.states[i], step.slices[i].position);
      step.slices[i].text = texts.At(step.texts[i]);
    }
    if (table) table->Set(step.slices);
    const SequenceBatch batch{step.slices, &cache, table.get(), step.rows_alone};
    const GroupScope scope(group);
    RunOptions run;
    run.state = &batch;
    run.unread_outputs = step.unread_outputs;
    const auto borrow = [](std::vector<int32_t>& values) {
      return Tensor::Borrow(values.data(), Shape{static_cast<int64_t>(values.size())});
    };
    const std::array<Tensor, 3> inputs = {borrow(step.tokens), borrow(step.positions),
                                          borrow(step.rows)};
    std::array<Tensor, 2> outputs = {LogitsFor(static_cast<int64_t>(step.rows.size())), Tensor()};
    session.ForwardInto(inputs, outputs, run);
  }

  /// On a GPU they stay there; undefined on the host, where the session makes them.
  Tensor LogitsFor(int64_t rows) {
    const Device where = model->facts().logits_device;
    if (where.type == DeviceType::kCpu) return {};
    const Shape shape{rows, model->info().vocabulary};
    if (!logits.defined() || logits.shape() != shape) {
      logits = cuda::DeviceTensor(DType::kF32, shape, where);
    }
    return logits;
  }

  void Copy(const RankMessage& message) {
    const Device device = cache.device();
    if (device.type != DeviceType::kCpu && !block_copies) {
      block_copies = std::make_unique<cuda::Stream>(device.index);
    }
    for (const auto& [from, to] : message.copies) {
      if (std::min(from, to) < 0 || std::max(from, to) >= cache.blocks()) {
        throw Error(ErrorCode::kDevice, "rank 0 copies blocks that the cache does not have");
      }
      cache.CopyBlock(from, to, block_copies.get());
    }
    if (block_copies) block_copies->Synchronize();
  }
};

RankGroup::RankGroup(std::unique_ptr<Collective> group, double deadline, bool pings, bool lone)
    : group_(std::move(group)), deadline_(deadline), pings_(pings), lone_(lone) {}

RankGroup::~RankGroup() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (pinger_.joinable()) pinger_.join();
  if (rank() == 0) Stop();
  for (std::thread& follower : followers_) follower.join();
}

void RankGroup::Stop() noexcept {
  try {
    RankMessage message;
    message.command = RankCommand::kStop;
    Send(message);
  } catch (...) {
    // Then the group has failed, and everybody knows.
    group_->Fail("rank 0 has left");
  }
}

void RankGroup::Agree(uint64_t digest, const std::string& summary) {
  const DeadlineScope patient(*group_, kLoadingDeadline, deadline_);
  std::vector<std::byte> first(summary.size());
  std::memcpy(first.data(), summary.data(), summary.size());
  group_->Broadcast("the start", first, 0);
  const std::string theirs(reinterpret_cast<const char*>(first.data()), first.size());
  std::vector<uint64_t> digests;
  const std::vector<size_t> sizes(static_cast<size_t>(ranks()), sizeof(digest));
  group_->Exchange("the comparison of models", std::as_bytes(std::span(&digest, 1)), sizes,
                   [&](int, std::span<const std::byte> bytes) {
                     std::memcpy(&digests.emplace_back(), bytes.data(), sizeof(digest));
                   });
  if (digest != digests[0]) {
    const std::string message =
        "it has another model, other options or another version than rank 0: " + summary +
        ", not " + theirs;
    group_->Fail(message);
    throw Error(ErrorCode::kInvalidArgument,
                RankName(rank(), HostName()) + ": " + message + ": give all ranks the same file");
  }
  group_->Barrier("the start");  // where ranks that differ say so
  if (pings_ && rank() == 0) pinger_ = std::thread([this] { Ping(); });
}

void RankGroup::Send(RankMessage& message) {
  message.ended_texts = texts_.TakeEnded();
  std::vector<std::byte> bytes = message.Write();
  group_->Broadcast("the next step", bytes, 0);
  sent_ = true;
}

void RankGroup::Ping() {
  std::unique_lock lock(mutex_);
  const auto pause = std::chrono::duration<double>(deadline_ / 4);
  while (!wake_.wait_for(lock, pause, [this] { return stopping_; })) {
    if (std::exchange(sent_, false)) continue;
    try {
      RankMessage nothing;
      Send(nothing);
    } catch (...) {
      return;  // the next step will say so
    }
  }
}

void RankGroup::Lead(RankMessage& message, const std::function<void()>& body) {
  const std::scoped_lock lock(mutex_);
  try {
    Guarded([&] {
      Send(message);
      body();
    });
  } catch (const Error& error) {
    group_->Fail(error.what());
    throw;
  }
}

uint32_t RankGroup::Open(KvType kv, int64_t cache_tokens, int threads) {
  RankMessage message;
  message.command = RankCommand::kOpen;
  message.kv = kv;
  message.cache_tokens = cache_tokens;
  message.threads = threads;
  const uint32_t runner = next_++;
  message.runner = runner;
  Lead(message, [&] {
    const DeadlineScope patient(*group_, kLoadingDeadline, deadline_);
    group_->Barrier("the cache of keys and values");
  });
  return runner;
}

void RankGroup::Close(uint32_t runner) noexcept {
  try {
    RankMessage message;
    message.command = RankCommand::kClose;
    message.runner = runner;
    Lead(message, [] {});
  } catch (...) {
    return;  // a group that has failed holds nothing for long
  }
}

std::shared_ptr<const EncodedText> RankGroup::Read(
    std::span<const int32_t> tokens, const std::function<std::shared_ptr<EncodedText>()>& read) {
  RankMessage message;
  message.command = RankCommand::kRead;
  message.text = next_text_++;
  message.prompt.assign(tokens.begin(), tokens.end());
  std::shared_ptr<EncodedText> text;
  Lead(message, [&] {
    text = read();
    text->number = message.text;
    texts_.Add(text);
  });
  return text;
}

void RankGroup::Follow(const std::shared_ptr<const LanguageModel>& model) {
  std::map<uint32_t, Runner> runners;
  FollowedTexts texts;
  // Threads are told when rank 0 goes. A process hears from it every quarter of the deadline.
  const double patience = pings_ ? 2 * deadline_ : std::numeric_limits<double>::infinity();
  try {
    Guarded([&] {
      while (true) {
        std::vector<std::byte> bytes;
        {
          const DeadlineScope waiting(*group_, patience, deadline_);
          group_->Broadcast("the next step", bytes, 0);
        }
        RankMessage message = RankMessage::Read(bytes);
        texts.End(message.ended_texts);
        if (message.command == RankCommand::kStop) return;
        if (message.command == RankCommand::kNothing) continue;
        if (message.command == RankCommand::kRead) {
          texts.Add(message.text, model->EncodePrompt(message.prompt));
          continue;
        }
        if (message.command == RankCommand::kOpen) {
          runners.try_emplace(message.runner, model, message);
          const DeadlineScope patient(*group_, kLoadingDeadline, deadline_);
          group_->Barrier("the cache of keys and values");
          continue;
        }
        const auto found = runners.find(message.runner);
        if (found == runners.end()) {
          throw Error(ErrorCode::kDevice, "rank 0 speaks of a cache that is not there");
        }
        if (message.command == RankCommand::kClose) {
          runners.erase(found);
        } else if (message.command == RankCommand::kCopy) {
          found->second.Copy(message);
        } else {
          found->second.Step(message.step, texts, *group_);
        }
      }
    });
  } catch (const Error& error) {
    group_->Fail(error.what());
    throw;
  }
}

int ThreadsOfRank(const LanguageModel& model, int threads) {
  const std::shared_ptr<RankGroup>& group = model.rank_group();
  if (threads > 0 || group == nullptr || group->local_ranks() == 1) return threads;
  return std::max(1, AvailableThreads() / group->local_ranks());
}

}  // namespace oort
