// SPDX-License-Identifier: MIT
#include "llm/picture_places.h"

#include <algorithm>
#include <string>

#include "oort/error.h"

namespace oort {
namespace {

int32_t PictureToken(const Picture& picture) { return -1 - picture.number; }

int64_t RowsOf(const Picture& picture) { return picture.embeddings.dim(0); }

}  // namespace

PicturePlaces::PicturePlaces(std::vector<std::shared_ptr<const Picture>> pictures,
                             std::span<const int32_t> prompt, int32_t token, int64_t elements)
    : pictures_(std::move(pictures)) {
  int64_t rows = 0;
  for (const std::shared_ptr<const Picture>& picture : pictures_) {
    if (picture == nullptr || picture->number < 1 || picture->embeddings.rank() != 2 ||
        picture->embeddings.dtype() != DType::kF32 || picture->embeddings.dim(1) != elements) {
      throw Error(ErrorCode::kInvalidArgument,
                  "a picture is none that this model has read (LanguageModel::EncodePicture)");
    }
    rows += RowsOf(*picture);
  }
  const int64_t places = std::ranges::count(prompt, token);
  if (places != rows) {
    throw Error(ErrorCode::kInvalidArgument, "the prompt has " + std::to_string(places) +
                                                 " tokens for pictures, which have " +
                                                 std::to_string(rows) + " rows");
  }
  size_t index = 0;
  int64_t row = 0;  // of that picture
  for (int64_t position = 0; position < std::ssize(prompt); ++position) {
    if (prompt[static_cast<size_t>(position)] != token) continue;
    while (row == RowsOf(*pictures_[index])) {
      ++index;
      row = 0;
    }
    const Picture* const picture = pictures_[index].get();
    const bool goes_on = !runs_.empty() && runs_.back().picture == picture && row > 0 &&
                         runs_.back().position + runs_.back().count == position;
    if (goes_on) {
      ++runs_.back().count;
    } else {
      runs_.push_back({position, 1, picture, row});
    }
    ++row;
  }
}

std::vector<int32_t> PicturePlaces::Marked(std::span<const int32_t> prompt) const {
  std::vector<int32_t> marked(prompt.begin(), prompt.end());
  for (const Run& run : runs_) {
    std::fill_n(marked.begin() + run.position, run.count, PictureToken(*run.picture));
  }
  return marked;
}

const float* PicturePlaces::RowAt(int64_t position) const {
  const auto after = std::ranges::upper_bound(runs_, position, {}, &Run::position);
  if (after == runs_.begin()) return nullptr;
  const Run& run = *(after - 1);
  if (position >= run.position + run.count) return nullptr;
  const Tensor& rows = run.picture->embeddings;
  return rows.data<float>() + (run.row + position - run.position) * rows.dim(1);
}

}  // namespace oort
