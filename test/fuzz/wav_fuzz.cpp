// SPDX-License-Identifier: MIT
// Any bytes as a WAV file: an Error, or samples that can be read and resampled.
#include "harness.h"
#include "oort/audio.h"

volatile double g_sum;  // so that reading the samples is not optimized away

oort::fuzz::Target oort::fuzz::MakeTarget() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace oort;
  double sum = 0;
  try {
    const Audio audio = DecodeWav(std::as_bytes(std::span(data, size)), "input");
    for (const float sample : audio.samples) sum += static_cast<double>(sample);
    // A rate of 1 would make a long sound of a small file: that is the caller's wish, and slow.
    if (audio.seconds() < 0.5) {
      const Audio other = Resample(audio, 16000);
      if (other.rate != 16000 || other.samples.size() > 9000) __builtin_trap();
      for (const float sample : other.samples) sum += static_cast<double>(sample);
    }
    oort::fuzz::CountWhole();
  } catch (const Error&) {
  }
  g_sum = sum;
  return 0;
}
