// SPDX-License-Identifier: MIT
// What is used of stb's headers beyond stb_image.h, with types of our own.
#pragma once

#include <span>

namespace oort::media {

struct StbPixels {
  int width, height, channels;
  const unsigned char* bytes;
};
using WriteFunction = void (*)(void* context, void* data, int size);

bool EncodePng(WriteFunction write, void* context, const StbPixels& pixels);
bool EncodeJpeg(WriteFunction write, void* context, const StbPixels& pixels, int quality);

/// Corners of a rectangle that is part of a letter, clockwise from the top left.
struct StbQuad {
  struct {
    float x, y, z;
    unsigned char color[4];
  } corners[4];
};

/// Of one line of printable ASCII that ends with 0.
int TextWidth(char* text);
/// Fills `quads` with the rectangles of such a line; returns how many there are.
int TextQuads(char* text, std::span<StbQuad> quads);

}  // namespace oort::media
