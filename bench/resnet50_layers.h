// SPDX-License-Identifier: MIT
// The distinct convolutions of ResNet-50, for benchmarks of single kernels.
#pragma once

namespace oort {

struct ConvLayer {
  int size, channels, filters, kernel, stride, count;
  bool addend;
};

/// As they come in the network; `count` says how often. Pictures have a fourth channel of zeros.
inline constexpr ConvLayer kResNet50Layers[] = {
    {224, 4, 64, 7, 2, 1, false},     {56, 64, 64, 1, 1, 1, false},
    {56, 64, 64, 3, 1, 3, false},     {56, 64, 256, 1, 1, 4, true},
    {56, 256, 64, 1, 1, 2, false},    {56, 256, 128, 1, 1, 1, false},
    {56, 128, 128, 3, 2, 1, false},   {28, 128, 512, 1, 1, 4, true},
    {56, 256, 512, 1, 2, 1, false},   {28, 512, 128, 1, 1, 3, false},
    {28, 128, 128, 3, 1, 3, false},   {28, 512, 256, 1, 1, 1, false},
    {28, 256, 256, 3, 2, 1, false},   {14, 256, 1024, 1, 1, 6, true},
    {28, 512, 1024, 1, 2, 1, false},  {14, 1024, 256, 1, 1, 5, false},
    {14, 256, 256, 3, 1, 5, false},   {14, 1024, 512, 1, 1, 1, false},
    {14, 512, 512, 3, 2, 1, false},   {7, 512, 2048, 1, 1, 3, true},
    {14, 1024, 2048, 1, 2, 1, false}, {7, 2048, 512, 1, 1, 2, false},
    {7, 512, 512, 3, 1, 2, false},    {1, 2048, 1000, 1, 1, 1, false},
};

}  // namespace oort
