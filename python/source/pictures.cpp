// SPDX-License-Identifier: MIT
#include "pictures.h"

#include <cstddef>
#include <span>
#include <utility>

#include "arrays.h"
#include "oort/error.h"
#include "unlocked.h"

#ifdef OORT_MEDIA
#include "oort/picture_reader.h"
#endif

namespace oort::python {

#ifdef OORT_MEDIA
namespace {

/// An array as numpy, Pillow and OpenCV have pictures: (height, width[, channels]) of bytes.
Image ImageOf(nb::handle array) {
  const ArrayInput input = InputOf(array, "a picture");
  const Tensor& tensor = input.tensor;
  const Shape& shape = tensor.shape();
  const int64_t channels = shape.rank() == 3 ? shape[2] : 1;
  const bool fits = tensor.dtype() == DType::kU8 && (shape.rank() == 2 || shape.rank() == 3) &&
                    (channels == 1 || channels == 3) && shape[0] < (1 << 24) &&
                    shape[1] < (1 << 24);
  if (!fits) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "a picture as an array is (height, width) or (height, width, 1 or 3) of uint8, not " +
            tensor.ToString());
  }
  Image image =
      MakeImage(static_cast<int>(shape[1]), static_cast<int>(shape[0]), static_cast<int>(channels));
  const auto* const pixels = tensor.data<uint8_t>();
  image.pixels.assign(pixels, pixels + image.pixels.size());
  return image;
}

class Reader final : public PictureSource {
 public:
  explicit Reader(std::shared_ptr<const LanguageModel> model) : reader_(std::move(model)) {}

  void Read(const nb::object& given, PictureHandle& read) override {
    if (nb::isinstance<nb::bytes>(given)) {
      const auto file = nb::cast<nb::bytes>(given);
      const std::span bytes(static_cast<const std::byte*>(file.data()), file.size());
      RunUnlocked(false, [&](const std::stop_token&) { read.picture = reader_.Read(bytes); });
      return;
    }
    const Image image = ImageOf(given);
    RunUnlocked(false, [&](const std::stop_token&) { read.picture = reader_.Read(image); });
  }

 private:
  PictureReader reader_;
};

}  // namespace

std::shared_ptr<PictureSource> MakePictureSource(std::shared_ptr<const LanguageModel> model) {
  return std::make_shared<Reader>(std::move(model));
}
#else
std::shared_ptr<PictureSource> MakePictureSource(std::shared_ptr<const LanguageModel>) {
  throw Error(ErrorCode::kUnsupported, "this package was built without pictures (libstb-dev)");
}
#endif

}  // namespace oort::python
