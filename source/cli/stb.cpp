// SPDX-License-Identifier: MIT
// The only file that compiles stb_image: from memory, few formats, bounded dimensions.
#define STB_IMAGE_IMPLEMENTATION
#define STBI_NO_STDIO
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_ONLY_BMP
#define STBI_ONLY_PNM
#define STBI_MAX_DIMENSIONS 32768
#include <stb/stb_image.h>
