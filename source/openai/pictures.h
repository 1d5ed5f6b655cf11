// SPDX-License-Identifier: MIT
// Pictures in the messages of a chat.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "openai/generate_call.h"

namespace oort::openai {

/// A picture that a request brought, before it is decoded.
struct PictureSource {
  std::string param;  ///< the field that had it
  std::string file;   ///< its bytes
};

/// Of a content part {"type": "image_url"}: a data: URL. Nothing is fetched: throws a RequestError
/// for other URLs.
PictureSource ReadPictureSource(Fields& part);

/// What the model makes of them; `before_each` may end that. Throws a RequestError for what is no
/// picture, and where the model reads none.
std::vector<std::shared_ptr<const Picture>> ReadPictures(
    const std::vector<PictureSource>& sources, const ServedModel& served,
    const std::function<void()>& before_each = {});

}  // namespace oort::openai
