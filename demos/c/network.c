/* SPDX-License-Identifier: MIT */
/* Reads a handwritten digit from C.
 *   network MODEL.pnnx.param [PICTURE.pgm]     the picture has 28 x 28 pixels; without one the network sees a 1 */
#include <oort/c_network.h>
#include <stdio.h>
#include <stdlib.h>

enum { kSide = 28 };

static int failed(oort_error* error) {
  fprintf(stderr, "network: %s\n", oort_error_message(error));
  oort_error_free(error);
  return 1;
}

/* A binary PGM of the right size, as numbers from 0 to 1. */
static int read_picture(const char* path, float* pixels) {
  unsigned char bytes[kSide * kSide];
  int width = 0, height = 0, most = 0, right = 0;
  size_t i = 0;
  FILE* file = fopen(path, "rb");
  if (file == NULL) return 0;
  right = fscanf(file, "P5 %d %d %d", &width, &height, &most) == 3 && width == kSide && height == kSide &&
          most == 255 && fgetc(file) != EOF && fread(bytes, 1, sizeof bytes, file) == sizeof bytes;
  fclose(file);
  for (i = 0; right && i < sizeof bytes; ++i) pixels[i] = (float)bytes[i] / 255.0F;
  return right;
}

/* An upright stroke. */
static void draw_one(float* pixels) {
  int row = 0;
  for (row = 5; row < 23; ++row) {
    pixels[row * kSide + 13] = pixels[row * kSide + 14] = 1.0F;
    pixels[row * kSide + 12] = pixels[row * kSide + 15] = 0.4F;
  }
}

static int run(const oort_network* network, float* pixels) {
  const int64_t extents[4] = {1, 1, kSide, kSide};
  oort_session* session = NULL;
  oort_tensor *input = NULL, *output = NULL;
  const oort_tensor* inputs[1];
  oort_error* error = NULL;
  const float* scores = NULL;
  size_t count = 0, best = 0, i = 0;
  if (oort_session_new(network, NULL, &session, &error) != OORT_OK) return failed(error);
  /* The pixels stay where they are: nothing is copied. */
  if (oort_tensor_borrow(OORT_F32, 4, extents, pixels, sizeof(float) * kSide * kSide, NULL, NULL, &input, &error) !=
      OORT_OK) {
    oort_session_free(session);
    return failed(error);
  }
  inputs[0] = input;
  if (oort_session_run(session, inputs, 1, &output, 1, &error) == OORT_OK) {
    scores = oort_tensor_data(output);
    count = oort_tensor_bytes(output) / sizeof(float);
    for (i = 1; i < count; ++i) best = scores[i] > scores[best] ? i : best;
    printf("this is a %d\n", (int)best);
  }
  oort_tensor_free(output);
  oort_tensor_free(input);
  oort_session_free(session);
  return error == NULL ? 0 : failed(error);
}

int main(int argc, char** argv) {
  float pixels[kSide * kSide] = {0};
  oort_network* network = NULL;
  oort_error* error = NULL;
  int status = 0;
  if (argc < 2 || argc > 3) {
    fprintf(stderr, "network MODEL.pnnx.param [PICTURE.pgm]\n");
    return 2;
  }
  if (argc == 2) {
    draw_one(pixels);
  } else if (!read_picture(argv[2], pixels)) {
    fprintf(stderr, "network: %s is no binary PGM of 28 x 28 pixels\n", argv[2]);
    return 1;
  }
  if (oort_network_load(argv[1], NULL, NULL, &network, &error) != OORT_OK) return failed(error);
  status = run(network, pixels);
  oort_network_free(network);
  return status;
}
