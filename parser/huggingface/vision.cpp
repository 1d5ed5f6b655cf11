// SPDX-License-Identifier: MIT
#include "parser/huggingface/vision.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/problems.h"
#include "oort/error.h"
#include "parser/checkpoint/families.h"
#include "parser/huggingface/plain_folder.h"

namespace oort::huggingface {
namespace {

constexpr int64_t kLargestTile = 4096, kMostPatches = 256;
/// No picture is resized to more, whatever the files say.
constexpr int64_t kLongestSide = 4096;
constexpr int64_t kMostTiles = 257;

/// The part of a processor's file that is about pictures: a file of its own, or a member of the
/// processor's.
json::Json ReadProcessor(const Folder& folder) {
  constexpr const char* kOwn = "preprocessor_config.json";
  constexpr const char* kWhole = "processor_config.json";
  if (const auto text = folder.Text(kOwn)) return json::Parse(*text, kOwn);
  if (const auto text = folder.Text(kWhole)) {
    const json::Json whole = json::Parse(*text, kWhole);
    if (const json::Json* inner = json::Object(whole, kWhole).Find("image_processor")) {
      return *inner;
    }
  }
  throw Error(ErrorCode::kNotFound, Quote(folder.path().string()) + " has no " + kOwn +
                                        ", which says how pictures become pixels");
}

/// By the number that Pillow gives it.
Filter FilterOf(const json::Object& file) {
  constexpr int64_t kLanczos = 1;
  switch (file.Integer("resample").value_or(kLanczos)) {
    case 0: return Filter::kNearest;
    case kLanczos: return Filter::kLanczos;
    case 2: return Filter::kBilinear;
    case 3: return Filter::kBicubic;
    default: break;
  }
  throw Error(ErrorCode::kUnsupported,
              file.what() + ": a 'resample' other than nearest, Lanczos, bilinear and bicubic");
}

std::array<double, 3> ChannelsIn(const json::Object& file, std::string_view key) {
  const std::vector<float> given = file.Floats(key);
  std::array<double, 3> channels = {0.5, 0.5, 0.5};
  if (given.empty()) return channels;
  const bool sound = given.size() == channels.size() &&
                     std::ranges::all_of(given, [](float value) { return std::isfinite(value); });
  if (!sound) file.ThrowWrongType(key, "three numbers");
  std::ranges::copy(given, channels.begin());
  return channels;
}

PictureFormat ReadFormat(const json::Object& file, int64_t image) {
  PictureFormat format;
  format.tile = image;
  if (const auto size = file.Member("max_image_size")) {
    format.tile = SizeIn(*size, "longest_edge", image, kLargestTile);
  }
  if (file.Bool("do_resize").value_or(true)) {
    format.longest_side = 4 * format.tile;
    if (const auto size = file.Member("size")) {
      format.longest_side = SizeIn(*size, "longest_edge", format.longest_side, kLongestSide);
    }
    format.longest_side = std::min(format.longest_side, kLongestSide);
  }
  format.splits = file.Bool("do_image_splitting").value_or(true);
  format.filter = FilterOf(file);
  if (file.Bool("do_rescale").value_or(true)) {
    format.factor = file.Number("rescale_factor").value_or(format.factor);
  } else {
    format.factor = 1;
  }
  if (file.Bool("do_normalize").value_or(true)) {
    format.mean = ChannelsIn(file, "image_mean");
    format.std = ChannelsIn(file, "image_std");
    if (std::ranges::count(format.std, 0.0) > 0) file.ThrowWrongType("image_std", "no zeros");
  } else {
    format.mean = {0, 0, 0};
    format.std = {1, 1, 1};
  }
  const int64_t longest = format.longest_side > 0 ? format.longest_side : kLongestSide;
  const int64_t along = (longest + format.tile - 1) / format.tile;
  format.most_tiles = format.splits ? along * along + 1 : 1;
  if (format.most_tiles > kMostTiles) {
    throw Error(ErrorCode::kUnsupported,
                file.what() + ": pictures of up to " + std::to_string(format.most_tiles) +
                    " tiles; at most " + std::to_string(kMostTiles) + " can be read");
  }
  return format;
}

}  // namespace

bool IsOfVision(std::string_view name) {
  return name.starts_with("model.vision_model.") || name.starts_with("model.connector.");
}

json::Json LanguageConfig(const json::Json& config) {
  const json::Object file(config, "config.json");
  const Family* family = FindFamily(file.Text("model_type").value_or(""));
  if (family == nullptr || family->text_family.empty()) return config;
  const json::Object inner = file.RequireMember("text_config");
  const std::string_view language = inner.Text("model_type").value_or(family->text_family);
  if (language != family->text_family) {
    throw Error(ErrorCode::kUnsupported,
                "config.json: the language model of " + Quote(std::string(family->name)) + " is " +
                    Quote(std::string(language)) + "; only " + std::string(family->text_family) +
                    "'s can be read in it");
  }
  json::Json text = file.Require("text_config");
  // What both could say the whole model's config decides.
  for (const char* key : {"model_type", "tie_word_embeddings", "quantization_config"}) {
    if (const json::Json* value = file.Find(key)) text[key] = *value;
  }
  if (text.contains("eos_token_id") && file.Find("eos_token_id") != nullptr) {
    text["eos_token_id"] = *file.Find("eos_token_id");
  }
  return text;
}

VisionConfig ReadVisionConfig(const Folder& folder, const json::Object& config,
                              const DecoderConfig& language) {
  const json::Object file = config.RequireMember("vision_config");
  VisionConfig vision;
  constexpr int64_t kMostWide = 65536, kMostDeep = 1024;
  vision.hidden = SizeIn(file, "hidden_size", 1152, kMostWide);
  vision.intermediate = SizeIn(file, "intermediate_size", 3072, kMostWide);
  vision.layers = SizeIn(file, "num_hidden_layers", 12, kMostDeep);
  vision.heads = SizeIn(file, "num_attention_heads", 16, kMostWide);
  if (vision.hidden % vision.heads != 0) {
    file.ThrowWrongType("num_attention_heads", "a number that divides hidden_size");
  }
  if (file.Integer("num_channels").value_or(3) != 3) {
    throw Error(ErrorCode::kUnsupported, file.what() + ": pictures of other than 3 channels");
  }
  vision.patch = SizeIn(file, "patch_size", 32, kLargestTile);
  const int64_t image = SizeIn(file, "image_size", 224, kLargestTile);
  vision.positions = image / vision.patch;
  vision.merged = SizeIn(config, "scale_factor", 2, kMostPatches);
  vision.activation = ActivationOf(file, file.Text("hidden_act").value_or("gelu_pytorch_tanh"));
  vision.epsilon = static_cast<float>(file.Number("layer_norm_eps").value_or(1e-6));
  vision.output = language.hidden;

  const json::Json processor = ReadProcessor(folder);
  const json::Object pictures(processor, "preprocessor_config.json");
  PictureFormat& format = vision.format;
  format = ReadFormat(pictures, image);
  const int64_t patches = vision.patches();
  if (format.tile % vision.patch != 0 || patches % vision.merged != 0 || vision.positions < 1 ||
      patches > kMostPatches || vision.positions > kMostPatches) {
    throw Error(ErrorCode::kInvalidModel,
                "a tile of " + std::to_string(format.tile) + " pixels has no whole number of " +
                    std::to_string(vision.merged) + " x " + std::to_string(vision.merged) +
                    " patches of " + std::to_string(vision.patch) + ", or more than " +
                    std::to_string(kMostPatches) + " along a side");
  }
  format.tile_tokens = (patches / vision.merged) * (patches / vision.merged);
  const int64_t token = config.Integer("image_token_id").value_or(128257);
  if (token < 0 || token >= language.vocabulary) {
    config.ThrowWrongType("image_token_id", "a token of the vocabulary");
  }
  format.token = static_cast<int32_t>(token);
  return vision;
}

}  // namespace oort::huggingface
