// SPDX-License-Identifier: MIT
// Pictures of chats. In a file of its own, compiled alone: a static program without pictures then
// has nothing of what decodes them.
#include <span>
#include <utility>

#include "c_api/border.h"
#include "c_api/model.h"

#ifdef OORT_MEDIA
#include "oort/picture_reader.h"
#endif

using oort::c_api::AtBorder;
using oort::c_api::Need;

namespace oort::c_api {
namespace {

#ifdef OORT_MEDIA
std::shared_ptr<PictureReader> ReaderOf(const std::shared_ptr<const LanguageModel>& model,
                                        PictureShelf& shelf) {
  const std::lock_guard lock(shelf.mutex);
  if (shelf.reader == nullptr) shelf.reader = std::make_shared<PictureReader>(model);
  return shelf.reader;
}

/// `given` is what a PictureReader reads: a file's bytes, or an Image.
template <typename Given>
void AddPicture(oort_chat& chat, Given given) {
  chat.pictures.emplace_back([shared = std::make_shared<const Given>(std::move(given))](
                                 const auto& model, PictureShelf& shelf) {
    return ReaderOf(model, shelf)->Read(*shared);
  });
}
#else
[[noreturn]] void FailWithout() {
  throw Error(ErrorCode::kUnsupported, "this library was built without pictures (libstb-dev)");
}
#endif

}  // namespace
}  // namespace oort::c_api

oort_code oort_chat_add_picture(oort_chat* chat, const void* file, size_t bytes,
                                oort_error** error) {
  return AtBorder(error, [&] {
    Need(chat, "chat");
    Need(file, "file");
#ifdef OORT_MEDIA
    const auto* const begin = static_cast<const std::byte*>(file);
    oort::c_api::AddPicture(*chat, std::vector<std::byte>(begin, begin + bytes));
#else
    oort::c_api::FailWithout();
#endif
  });
}

oort_code oort_chat_add_pixels(oort_chat* chat, const uint8_t* pixels, int32_t width,
                               int32_t height, int32_t channels, oort_error** error) {
  return AtBorder(error, [&] {
    Need(chat, "chat");
    Need(pixels, "pixels");
#ifdef OORT_MEDIA
    oort::Image image = oort::MakeImage(width, height, channels);  // refuses sizes that none has
    image.pixels.assign(pixels, pixels + image.pixels.size());
    oort::c_api::AddPicture(*chat, std::move(image));
#else
    oort::c_api::FailWithout();
#endif
  });
}
