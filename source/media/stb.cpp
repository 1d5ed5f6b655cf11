// SPDX-License-Identifier: MIT
// The only file that compiles stb's headers: from and to memory, few formats, bounded dimensions.
#include "media/stb.h"

#define STB_IMAGE_IMPLEMENTATION
#define STBI_NO_STDIO
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_ONLY_BMP
#define STBI_ONLY_PNM
#define STBI_MAX_DIMENSIONS 32768
#include <stb/stb_image.h>

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STBI_WRITE_NO_STDIO
#define STB_IMAGE_WRITE_STATIC
#include <stb/stb_easy_font.h>
#include <stb/stb_image_write.h>

namespace oort::media {

bool EncodePng(WriteFunction write, void* context, const StbPixels& pixels) {
  return stbi_write_png_to_func(write, context, pixels.width, pixels.height, pixels.channels,
                                pixels.bytes, pixels.width * pixels.channels) != 0;
}

bool EncodeJpeg(WriteFunction write, void* context, const StbPixels& pixels, int quality) {
  return stbi_write_jpg_to_func(write, context, pixels.width, pixels.height, pixels.channels,
                                pixels.bytes, quality) != 0;
}

int TextWidth(char* text) { return stb_easy_font_width(text); }

int TextQuads(char* text, std::span<StbQuad> quads) {
  return stb_easy_font_print(0, 0, text, nullptr, quads.data(),
                             static_cast<int>(quads.size_bytes()));
}

}  // namespace oort::media
