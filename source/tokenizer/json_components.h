// SPDX-License-Identifier: MIT
// The components of a tokenizer.json.
#pragma once

#include "text/json.h"
#include "tokenizer/pipeline.h"

namespace oort::tokenizer {

using json::Json;
using json::Object;

NormalizerPtr ReadNormalizer(const Json& json);
/// `map_last`: whether a ByteLevel at the very end maps bytes to characters itself.
PreTokenizerPtr ReadPreTokenizer(const Json& json, bool map_last);
/// Whether the last step is a ByteLevel.
bool EndsWithByteLevel(const Json& json);
PostProcessorPtr ReadPostProcessor(const Json& json);
DecoderPtr ReadDecoder(const Json& json);
/// `words_are_bytes` is set to whether the model wants words as bytes; it does if it may and can.
ModelPtr ReadModel(const Json& json, bool& words_are_bytes);

}  // namespace oort::tokenizer
