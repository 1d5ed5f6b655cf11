// SPDX-License-Identifier: MIT
#include "llm/step_message.h"

#include <cstring>
#include <type_traits>

#include "oort/error.h"

namespace oort {
namespace {

class MessageWriter {
 public:
  template <typename T>
  void Put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(T));
  }
  template <typename Values>
  void PutAll(const Values& values) {
    Put(static_cast<uint64_t>(values.size()));
    const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> Take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T Get() {
    static_assert(std::is_arithmetic_v<T>);
    Need(sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_ = bytes_.subspan(sizeof(T));
    return value;
  }
  /// A number of items, each of which takes so many bytes at least.
  size_t Count(size_t item_bytes) {
    const uint64_t count = Get<uint64_t>();
    if (count > bytes_.size() / item_bytes) Refuse();
    return static_cast<size_t>(count);
  }
  template <typename T>
  std::vector<T> GetAll() {
    std::vector<T> values(Count(sizeof(T)));
    const size_t bytes = values.size() * sizeof(T);
    if (bytes > 0) std::memcpy(values.data(), bytes_.data(), bytes);
    bytes_ = bytes_.subspan(bytes);
    return values;
  }
  void End() const {
    if (!bytes_.empty()) Refuse();
  }
  [[noreturn]] static void Refuse() {
    throw Error(ErrorCode::kDevice, "a message of rank 0 makes no sense: another version sent it");
  }

 private:
  void Need(size_t bytes) const {
    if (bytes_.size() < bytes) Refuse();
  }
  std::span<const std::byte> bytes_;
};

constexpr uint32_t kMessageVersion = 3;

}  // namespace

std::vector<std::byte> RankMessage::Write() const {
  MessageWriter out;
  out.Put(kMessageVersion);
  out.Put(static_cast<uint32_t>(command));
  out.Put(runner);
  out.PutAll(ended_texts);
  switch (command) {
    case RankCommand::kRead:
      out.Put(text);
      out.PutAll(prompt);
      break;
    case RankCommand::kOpen:
      out.Put(static_cast<uint8_t>(kv));
      out.Put(cache_tokens);
      out.Put(threads);
      break;
    case RankCommand::kStep:
      out.Put(step.unread_outputs);
      out.Put(static_cast<uint8_t>(step.rows_alone));
      out.PutAll(step.tokens);
      out.PutAll(step.positions);
      out.PutAll(step.rows);
      out.Put(static_cast<uint64_t>(step.slices.size()));
      for (size_t i = 0; i < step.slices.size(); ++i) {
        const SequenceSlice& slice = step.slices[i];
        for (const int64_t number : {slice.first, slice.count, slice.position, slice.length,
                                     step.states.at(i), step.texts.at(i)}) {
          out.Put(number);
        }
        out.Put(slice.adapter);
        out.PutAll(slice.blocks);
      }
      out.Put(static_cast<uint64_t>(step.state_changes.size()));
      for (const StateChange& change : step.state_changes) {
        out.Put(change.state);
        out.Put(change.from);
      }
      break;
    case RankCommand::kCopy:
      out.Put(static_cast<uint64_t>(copies.size()));
      for (const auto& [from, to] : copies) {
        out.Put(from);
        out.Put(to);
      }
      break;
    case RankCommand::kNothing:
    case RankCommand::kClose:
    case RankCommand::kStop: break;
  }
  return out.Take();
}

RankMessage RankMessage::Read(std::span<const std::byte> bytes) {
  MessageReader in(bytes);
  RankMessage message;
  if (in.Get<uint32_t>() != kMessageVersion) MessageReader::Refuse();
  const uint32_t command = in.Get<uint32_t>();
  if (command > static_cast<uint32_t>(RankCommand::kStop)) MessageReader::Refuse();
  message.command = static_cast<RankCommand>(command);
  message.runner = in.Get<uint32_t>();
  message.ended_texts = in.GetAll<int64_t>();
  switch (message.command) {
    case RankCommand::kRead:
      message.text = in.Get<int64_t>();
      message.prompt = in.GetAll<int32_t>();
      break;
    case RankCommand::kOpen: {
      const uint8_t kv = in.Get<uint8_t>();
      if (kv > static_cast<uint8_t>(KvType::kK6V4)) MessageReader::Refuse();
      message.kv = static_cast<KvType>(kv);
      message.cache_tokens = in.Get<int64_t>();
      message.threads = in.Get<int32_t>();
      break;
    }
    case RankCommand::kStep: {
      RankStep& step = message.step;
      step.unread_outputs = in.Get<uint64_t>();
      step.rows_alone = in.Get<uint8_t>() != 0;
      step.tokens = in.GetAll<int32_t>();
      step.positions = in.GetAll<int32_t>();
      step.rows = in.GetAll<int32_t>();
      const size_t slices = in.Count(6 * sizeof(int64_t));
      for (size_t i = 0; i < slices; ++i) {
        SequenceSlice slice;
        int64_t& state = step.states.emplace_back();
        int64_t& text = step.texts.emplace_back();
        for (int64_t* number :
             {&slice.first, &slice.count, &slice.position, &slice.length, &state, &text}) {
          *number = in.Get<int64_t>();
        }
        slice.adapter = in.Get<int32_t>();
        step.blocks.push_back(in.GetAll<int32_t>());
        step.slices.push_back(slice);
      }
      for (size_t i = 0; i < slices; ++i) step.slices[i].blocks = step.blocks[i];
      const size_t changes = in.Count(2 * sizeof(int64_t));
      for (size_t i = 0; i < changes; ++i) {
        const int64_t state = in.Get<int64_t>();
        step.state_changes.push_back({state, in.Get<int64_t>()});
      }
      break;
    }
    case RankCommand::kCopy: {
      const size_t copies = in.Count(2 * sizeof(int32_t));
      for (size_t i = 0; i < copies; ++i) {
        const int32_t from = in.Get<int32_t>();
        message.copies.emplace_back(from, in.Get<int32_t>());
      }
      break;
    }
    case RankCommand::kNothing:
    case RankCommand::kClose:
    case RankCommand::kStop: break;
  }
  in.End();
  return message;
}

}  // namespace oort
