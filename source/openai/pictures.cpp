// SPDX-License-Identifier: MIT
#include "openai/pictures.h"

#include <algorithm>

#include "core/problems.h"
#include "text/base64.h"

namespace oort::openai {
namespace {

/// The bytes of "data:image/png;base64,iVBOR…".
std::string BytesOf(std::string_view url, const std::string& param) {
  constexpr std::string_view kData = "data:", kBase64 = ";base64";
  if (!url.starts_with(kData)) {
    throw RequestError(param, Quote(param) +
                                  " must be a data: URL, \"data:image/png;base64,…\": nothing is "
                                  "fetched, and no file is opened, for who asks");
  }
  const size_t comma = url.find(',');
  const std::string_view head = url.substr(0, std::min(comma, url.size()));
  if (comma == std::string_view::npos || !head.ends_with(kBase64)) {
    throw RequestError(param, Quote(param) + " is a data: URL that is not in base64");
  }
  try {
    return text::DecodeBase64(url.substr(comma + 1), Quote(param));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kOutOfMemory) throw;
    throw RequestError(param, error.what());
  }
}

}  // namespace

PictureSource ReadPictureSource(Fields& part) {
  const Json* given = part.Find("image_url");
  if (given == nullptr) part.Fail("image_url", "is missing");
  if (given->is_string()) {
    const std::string param = part.PathOf("image_url");
    return {param, BytesOf(given->get_ref<const std::string&>(), param)};
  }
  Fields image(*part.Object("image_url"), part.PathOf("image_url"));
  const auto url = image.Text("url");
  if (!url) image.Fail("url", "is missing");
  image.Ignore({"detail"});  // a model's tiles are as it was trained
  image.CheckAllKnown();
  const std::string param = image.PathOf("url");
  return {param, BytesOf(*url, param)};
}

std::vector<std::shared_ptr<const Picture>> ReadPictures(const std::vector<PictureSource>& sources,
                                                         const ServedModel& served,
                                                         const std::function<void()>& before_each) {
  std::vector<std::shared_ptr<const Picture>> pictures;
  for (const PictureSource& source : sources) {
    if (!served.read_picture) {
      throw RequestError(source.param, Quote(source.param) +
                                           " is a picture, and the model that answers here reads "
                                           "text alone");
    }
    if (before_each) before_each();
    try {
      pictures.push_back(served.read_picture(std::as_bytes(std::span(source.file))));
    } catch (const Error& error) {
      const bool is_asker = error.code() == ErrorCode::kInvalidModel ||
                            error.code() == ErrorCode::kInvalidArgument ||
                            error.code() == ErrorCode::kLimit;
      if (!is_asker) throw;
      throw RequestError(source.param, Quote(source.param) + ": " + error.what());
    }
  }
  return pictures;
}

}  // namespace oort::openai
