// SPDX-License-Identifier: MIT
#include "llm/vision_tower.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "core/checked.h"
#include "decoder/decoder_graph.h"
#include "decoder/vision.h"
#include "oort/error.h"
#include "text/json.h"

namespace oort {
namespace {

/// No two pictures of a process have the same one, until there were two billion.
int32_t NextNumber() {
  static std::atomic<uint32_t> last = 0;
  uint32_t number = 0;
  while (number == 0) number = ++last & 0x7fffffff;
  return static_cast<int32_t>(number);
}

/// As the processors of SmolVLM and Idefics3 write it: each tile by its row and column, then the
/// whole picture.
std::string TextOf(const Picture& picture, std::string_view place, const PictureFormat& format) {
  constexpr std::string_view kAround = "<fake_token_around_image>", kWhole = "<global-img>";
  std::string tile;
  for (int64_t i = 0; i < format.tile_tokens; ++i) tile += place;
  std::string text;
  for (int64_t row = 1; row <= picture.rows; ++row) {
    for (int64_t column = 1; column <= picture.columns; ++column) {
      text += std::string(kAround) + "<row_" + std::to_string(row) + "_col_" +
              std::to_string(column) + ">" + tile;
    }
    text += "\n";
  }
  if (picture.rows > 0) text += "\n";
  return text + std::string(kAround) + std::string(kWhole) + tile + std::string(kAround);
}

}  // namespace

VisionTower::VisionTower(const VisionFiles& files, const LoadOptions& load)
    : format_(files.config.format), elements_(files.config.output) {
  Graph graph = BuildVision(files);
  weight_bytes_ = WeightBytes(graph);
  session_ = std::make_unique<Session>(RuntimeGraph::Build(std::move(graph), load));
}

ReaderMemory VisionTower::memory() const {
  const int64_t side = format_.tile;
  const Tensor tile = Tensor::Meta(DType::kF32, Shape{1, 3, side, side});
  const MemoryReport report = session_->graph().Plan({tile}, session_->threads()).memory;
  const Tensor rows =
      Tensor::Meta(DType::kF32, Shape{format_.most_tiles * format_.tile_tokens, elements_});
  const size_t pixels = CheckedMultiply(tile.bytes(), static_cast<size_t>(format_.most_tiles));
  return {.weights = report.weights,
          .activations = CheckedAdd(report.arena + report.outputs, pixels + rows.bytes())};
}

void VisionTower::Check(const PictureTiles& tiles) const {
  const int64_t most = format_.most_tiles;
  const bool sound = tiles.rows >= 0 && tiles.columns >= 0 && tiles.rows <= most &&
                     tiles.columns <= most && (tiles.rows == 0) == (tiles.columns == 0);
  const int64_t count = sound ? tiles.rows * tiles.columns + 1 : 0;
  const Shape wanted{count, 3, format_.tile, format_.tile};
  if (sound && count <= most && tiles.pixels.defined() && tiles.pixels.dtype() == DType::kF32 &&
      tiles.pixels.shape() == wanted) {
    return;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "a picture of " + std::to_string(tiles.rows) + " x " + std::to_string(tiles.columns) +
                  " tiles should be at most " + std::to_string(most) + " tiles of f32, " +
                  wanted.ToString() + ", but is " +
                  (tiles.pixels.defined() ? tiles.pixels.shape().ToString() : "nothing") +
                  ": CutTiles makes them");
}

std::shared_ptr<const Picture> VisionTower::Encode(const PictureTiles& tiles) const {
  Check(tiles);
  auto picture = std::make_shared<Picture>();
  picture->rows = tiles.rows;
  picture->columns = tiles.columns;
  const int64_t count = tiles.pixels.dim(0), pixels = 3 * format_.tile * format_.tile;
  picture->embeddings = Tensor(DType::kF32, Shape{count * format_.tile_tokens, elements_});
  float* to = picture->embeddings.data<float>();
  const std::lock_guard lock(mutex_);
  for (int64_t tile = 0; tile < count; ++tile) {
    // One at a time: memory does not grow with the picture.
    const Tensor input(DType::kF32, Shape{1, 3, format_.tile, format_.tile}, tiles.pixels.buffer(),
                       tiles.pixels.offset() + static_cast<size_t>(tile * pixels) * sizeof(float));
    const std::vector<Tensor> rows = session_->Forward({input});
    to = std::ranges::copy(rows.at(0).span<float>(), to).out;
  }
  picture->number = NextNumber();
  return picture;
}

Error NoPictures(const LanguageModel& model) {
  return {
      ErrorCode::kUnsupported,
      model.info().vision
          ? "pictures are read on the CPU, by one rank, of the model's own folder: on a GPU, by "
            "several ranks and converted it reads text alone"
          : "this model reads text alone: it has no part for pictures"};
}

RenderedChat WithPictures(const RenderedChat& chat, std::string_view place,
                          const PictureFormat& format,
                          std::span<const std::shared_ptr<const Picture>> pictures) {
  RenderedChat made;
  size_t from = 0, next = 0, user = 0;
  std::ptrdiff_t shift = 0;
  const auto move_users = [&](size_t until) {
    for (; user < chat.user.size() && chat.user[user].begin < until; ++user) {
      const TextRange& range = chat.user[user];
      made.user.push_back(
          {range.begin + static_cast<size_t>(shift), range.end + static_cast<size_t>(shift)});
    }
  };
  for (size_t at = chat.text.find(place); at != std::string::npos;) {
    const size_t end = at + place.size();
    const auto touches = [&](const TextRange& range) {
      return range.begin < end && at < range.end;
    };
    if (std::ranges::any_of(chat.user, touches)) {
      at = chat.text.find(place, at + 1);
      continue;
    }
    if (next == pictures.size()) {
      next = pictures.size() + 1;
      break;
    }
    move_users(at);
    const std::string text = TextOf(*pictures[next++], place, format);
    made.text += chat.text.substr(from, at - from) + text;
    shift += static_cast<std::ptrdiff_t>(text.size()) - static_cast<std::ptrdiff_t>(place.size());
    from = end;
    at = chat.text.find(place, from);
  }
  if (next != pictures.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the chat has " + std::string(next > pictures.size() ? "more" : "fewer") +
                    " places for pictures than the " + std::to_string(pictures.size()) +
                    " that were given: each has a content part {\"type\": \"image\"}");
  }
  move_users(chat.text.size() + 1);
  made.text += chat.text.substr(from);
  return made;
}

std::string ContentInParts(const std::string& messages) {
  json::OrderedJson list = json::ParseOrdered(messages, "the messages");
  if (!list.is_array()) return messages;
  for (json::OrderedJson& message : list) {
    if (!message.is_object()) continue;
    const auto content = message.find("content");
    if (content == message.end() || !content->is_string()) continue;
    json::OrderedJson part = json::OrderedJson::object();
    part["type"] = "text";
    part["text"] = *content;
    *content = json::OrderedJson::array({part});
  }
  return list.dump();
}

}  // namespace oort
