// SPDX-License-Identifier: MIT
#include "oort/image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "kit/errors.h"
#include "kit/files.h"
#include "media/goldens.h"

namespace oort {
namespace {

using goldens::ExpectNear;
using goldens::Golden;
using goldens::GoldenTensor;

Image SmallPicture() { return ReadImage(Golden("picture.png")); }

std::vector<Detection> GoldenBoxes() {
  const Tensor rows = GoldenTensor("boxes");
  std::vector<Detection> found;
  for (int64_t i = 0; i < rows.dim(0); ++i) {
    const float* row = rows.data<float>() + 6 * i;
    found.push_back({{row[0], row[1], row[2], row[3]}, row[4], static_cast<int>(row[5])});
  }
  return found;
}

/// The scores that torchvision kept, best first.
std::vector<float> GoldenKept(const char* kind) {
  std::ifstream file(Golden("suppressed.json"));
  const std::vector<Detection> all = GoldenBoxes();
  std::vector<float> scores;
  for (const size_t i : nlohmann::json::parse(file).at(kind).get<std::vector<size_t>>()) {
    scores.push_back(all[i].score);
  }
  return scores;
}

std::vector<float> ScoresOf(const std::vector<Detection>& detections) {
  std::vector<float> scores;
  for (const Detection& one : detections) scores.push_back(one.score);
  return scores;
}

TEST(Image, ResizesAsTorchvision) {
  for (const auto& [width, height] : {std::pair(16, 11), std::pair(45, 30), std::pair(40, 9)}) {
    for (const bool cubic : {false, true}) {
      for (const bool smooth : {true, false}) {
        const std::string name = std::string("resize-") + (cubic ? "bicubic-" : "bilinear-") +
                                 (smooth ? "smooth-" : "sharp-") + std::to_string(width) + "x" +
                                 std::to_string(height);
        SCOPED_TRACE(name);
        const Image resized = Resize(SmallPicture(), width, height,
                                     {cubic ? Filter::kBicubic : Filter::kBilinear, smooth});
        EXPECT_EQ(resized.width, width);
        EXPECT_EQ(resized.height, height);
        ExpectNear(resized.pixels, GoldenTensor(name), 2e-3);
      }
    }
  }
  ExpectNear(Resize(SmallPicture(), 50, 9, {Filter::kNearest}).pixels,
             GoldenTensor("resize-nearest-50x9"), 0.001);
}

TEST(Image, PreparesPicturesForImageNet) {
  const Image fitted = CenterCrop(ResizeShorter(SmallPicture(), 14), 12, 12);
  const Tensor input = ToTensor(fitted, ImageNetNormalization());
  EXPECT_EQ(input.shape(), (Shape{1, 3, 12, 12}));
  ExpectNear(input.span<float>(), GoldenTensor("imagenet-14-12"), 1e-4);
}

TEST(Image, CropsAtTheCenterAndBeyondTheEdges) {
  ExpectNear(CenterCrop(SmallPicture(), 17, 8).pixels, GoldenTensor("center-crop-17x8"), 1e-6);
  ExpectNear(CenterCrop(SmallPicture(), 41, 29).pixels, GoldenTensor("center-crop-41x29"), 1e-6);
  const Image far = Crop(SmallPicture(), 1000, -2000000000, 2, 2, 9);
  EXPECT_EQ(far.pixels, std::vector<float>(12, 9.0f));
}

TEST(Image, LetterboxesAsOpenCvAndFindsTheWayBack) {
  for (const auto& [width, height] : {std::pair(32, 32), std::pair(60, 25)}) {
    const Letterboxed boxed = Letterbox(SmallPicture(), width, height);
    ExpectNear(boxed.image.pixels,
               GoldenTensor("letterbox-" + std::to_string(width) + "x" + std::to_string(height)),
               0.02);
    const auto left = static_cast<float>(boxed.left), top = static_cast<float>(boxed.top);
    const Box back = boxed.ToOriginal(
        {left + 3 * boxed.scale, top + 4 * boxed.scale, 1000, top + 9 * boxed.scale});
    EXPECT_NEAR(back.x0, 3, 1e-4);
    EXPECT_NEAR(back.y0, 4, 1e-4);
    EXPECT_EQ(back.x1, 37);
    EXPECT_NEAR(back.y1, 9, 1e-4);
  }
}

TEST(Image, ReadsJpegAndGray) {
  // Decoders may round otherwise.
  ExpectNear(ReadImage(Golden("picture.jpg")).pixels, GoldenTensor("picture-jpg"), 3);
  const Image gray = ToGray(SmallPicture());
  EXPECT_EQ(gray.channels, 1);
  ExpectNear(gray.pixels, GoldenTensor("gray"), 1e-3);
}

TEST(Image, WritesWhatItReads) {
  const testing::TemporaryFolder folder;
  const Image picture = SmallPicture();
  for (const char* name : {"a.png", "a.ppm", "B.PNG"}) {
    WriteImage(folder / name, picture);
    EXPECT_EQ(ReadImage(folder / name).pixels, picture.pixels) << name;
  }
  WriteImage(folder / "gray.pgm", ToGray(picture));
  EXPECT_NEAR(ReadImage(folder / "gray.pgm").at(3, 4, 2), ToGray(picture).at(3, 4, 0), 0.5);
  WriteImage(folder / "a.jpg", picture);
  EXPECT_EQ(ReadImage(folder / "a.jpg").width, picture.width);
  testing::ExpectThrows([&] { WriteImage(folder / "a.gif", picture); }, ErrorCode::kInvalidArgument,
                        ".png, .jpg, .ppm or .pgm");
}

TEST(Image, RoundsAndCutsPixelsThatItWrites) {
  const testing::TemporaryFolder folder;
  Image image = MakeImage(4, 1, 1);
  image.pixels = {-5, 1.6f, 300, std::numeric_limits<float>::quiet_NaN()};
  WriteImage(folder / "x.png", image);
  const Image back = ToGray(ReadImage(folder / "x.png"));
  const std::vector<float> wanted = {0, 2, 255, 0};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(back.pixels[i], wanted[i], 1e-3);
}

TEST(Image, TensorsGoBothWays) {
  const Image picture = SmallPicture();
  const Image back = ToImage(ToTensor(picture));
  ASSERT_EQ(back.pixels.size(), picture.pixels.size());
  for (size_t i = 0; i < back.pixels.size(); ++i) {
    EXPECT_NEAR(back.pixels[i], picture.pixels[i], 1e-4);
  }
  testing::ExpectThrows(
      [] {
        ToImage(Tensor(DType::kF32, {2, 3, 4, 5}));
      },
      ErrorCode::kInvalidArgument, "(C,H,W)");
}

TEST(Image, RefusesWhatIsNoPicture) {
  testing::ExpectThrows([] { DecodeImage({}, "empty.png"); }, ErrorCode::kInvalidModel,
                        "empty.png");
  const std::string bytes = testing::FileBytes(Golden("picture.png"));
  for (size_t length = 0; length < bytes.size(); length += 97) {
    EXPECT_THROW(DecodeImage(std::as_bytes(std::span(bytes).first(length))), Error) << length;
  }
  const std::string huge = "P6\n30000 30000\n255\n";
  testing::ExpectThrows([&] { DecodeImage(std::as_bytes(std::span(huge)), "huge"); },
                        ErrorCode::kLimit, "64 million");
  testing::ExpectThrows([] { Resize(SmallPicture(), 0, 5); }, ErrorCode::kInvalidArgument, "0 x 5");
  testing::ExpectThrows([] { Resize(SmallPicture(), 30000, 30000); }, ErrorCode::kLimit,
                        "64 million");
  testing::ExpectThrows([] { MakeImage(3, 3, 2); }, ErrorCode::kInvalidArgument, "2 channels");
}

TEST(Boxes, SuppressAsTorchvision) {
  EXPECT_EQ(ScoresOf(Suppress(GoldenBoxes(), {.most = 1000})), GoldenKept("by_label"));
  EXPECT_EQ(ScoresOf(Suppress(GoldenBoxes(), {.overlap = 0.3f, .by_label = false, .most = 1000})),
            GoldenKept("all"));
  EXPECT_EQ(Suppress(GoldenBoxes(), {.most = 3}).size(), 3U);
}

TEST(Boxes, OverlapAsTorchvision) {
  const std::vector<Detection> all = GoldenBoxes();
  std::vector<float> overlaps;
  for (size_t i = 0; i < 20; ++i) {
    for (size_t j = 20; j < 40; ++j) overlaps.push_back(Overlap(all[i].box, all[j].box));
  }
  ExpectNear(overlaps, GoldenTensor("overlaps"), 1e-6);
  EXPECT_EQ(Overlap({5, 5, 1, 1}, {5, 5, 1, 1}), 0);
}

TEST(Boxes, ScoresThatAreNoNumbersAreDropped) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto kept = Suppress({{{0, 0, 1, 1}, nan, 0}, {{0, 0, 1, 1}, 0.5f, 0}});
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept[0].score, 0.5f);
}

TEST(Regions, AreTheRectanglesThatOpenCvFinds) {
  std::vector<Region> found = FindRegions(GoldenTensor("region-map"), {.growth = 0});
  const Tensor golden = GoldenTensor("regions");
  ASSERT_EQ(static_cast<int64_t>(found.size()), golden.dim(0));
  const auto center = [](const Region& region) {
    return (region.corners[0].x + region.corners[2].x) / 2;
  };
  std::sort(found.begin(), found.end(),
            [&](const Region& a, const Region& b) { return center(a) < center(b); });
  for (size_t i = 0; i < found.size(); ++i) {
    const float* wanted = golden.data<float>() + 4 * i;
    const Quad& quad = found[i].corners;
    const float across = std::hypot(quad[1].x - quad[0].x, quad[1].y - quad[0].y);
    const float down = std::hypot(quad[3].x - quad[0].x, quad[3].y - quad[0].y);
    // Corners are cut to whole numbers.
    EXPECT_NEAR(center(found[i]), wanted[0], 1.5);
    EXPECT_NEAR((quad[0].y + quad[2].y) / 2, wanted[1], 1.5);
    EXPECT_NEAR(std::max(across, down), wanted[2], 1.5);
    EXPECT_NEAR(std::min(across, down), wanted[3], 1.5);
    EXPECT_GT(found[i].score, 0.6f);
  }
}

TEST(Regions, GrowAndAreDropped) {
  Tensor map = Tensor::Zeros(DType::kF32, {20, 40});
  for (int64_t y = 8; y < 13; ++y) {
    for (int64_t x = 10; x < 30; ++x) map.data<float>()[y * 40 + x] = 1;
  }
  map.data<float>()[2 * 40 + 2] = 1;  // too small
  const std::vector<Region> found = FindRegions(map);
  ASSERT_EQ(found.size(), 1U);
  // 20 x 5 pixels and one more by closing gaps; the area over the perimeter is 2, times 1.6.
  EXPECT_NEAR(found[0].corners[0].x, 10 - 3.2, 0.01);
  EXPECT_NEAR(found[0].corners[0].y, 8 - 3.2, 0.01);
  EXPECT_NEAR(found[0].corners[2].x, 30 + 3.2, 0.01);
  EXPECT_NEAR(found[0].corners[2].y, 13 + 3.2, 0.01);
  EXPECT_TRUE(FindRegions(map, {.least_score = 0.99f}).empty());
  EXPECT_TRUE(FindRegions(Tensor::Zeros(DType::kF32, {1, 1, 0, 4})).empty());
  testing::ExpectThrows(
      [] {
        FindRegions(Tensor(DType::kF32, {3, 4, 5}));
      },
      ErrorCode::kInvalidArgument, "(1,1,H,W)");
}

TEST(Regions, AreCutOutAsByOpenCv) {
  const Image cut = CropQuad(SmallPicture(), {{{4, 6}, {30, 2}, {32, 14}, {6, 18}}});
  EXPECT_EQ(cut.width, 26);
  EXPECT_EQ(cut.height, 12);
  // OpenCV knows 32 places between two pixels.
  ExpectNear(cut.pixels, GoldenTensor("crop-quad"), 4);
  ExpectNear(Turn(SmallPicture(), 1).pixels, GoldenTensor("turned"), 1e-6);
  EXPECT_EQ(Turn(Turn(SmallPicture(), 3), -3).pixels, SmallPicture().pixels);
  EXPECT_EQ(Turn(Turn(SmallPicture(), 2), 1).pixels, Turn(SmallPicture(), 3).pixels);
  testing::ExpectThrows([] { CropQuad(SmallPicture(), Quad{}); }, ErrorCode::kInvalidArgument,
                        "cannot be cut out");
}

TEST(Boxes, AreDrawnWithinThePicture) {
  Image image = MakeImage(20, 10, 3);
  DrawBox(image, {2, 3, 8, 9}, {255, 0, 7}, 1);
  EXPECT_EQ(image.at(3, 2, 0), 255);
  EXPECT_EQ(image.at(8, 7, 2), 7);
  EXPECT_EQ(image.at(5, 5, 0), 0);
  EXPECT_EQ(image.at(9, 8, 0), 0);
  const float infinite = std::numeric_limits<float>::infinity();
  DrawBox(image, {-infinite, -5, infinite, std::nanf("")}, {1, 1, 1}, 3);
  DrawLabel(image, -3, -2, "Größe \x01 and more than fits", {10, 200, 10}, 1);
  EXPECT_EQ(image.at(9, 0, 1), 200);
}

TEST(Boxes, LabelsShowTheirLetters) {
  Image one = MakeImage(80, 30, 3), other = one;
  DrawLabel(one, 0, 0, "cat", {255, 255, 255}, 2);
  DrawLabel(other, 0, 0, "dog", {255, 255, 255}, 2);
  EXPECT_NE(one.pixels, other.pixels);
  const auto dark = std::count(one.pixels.begin(), one.pixels.begin() + 20 * 80 * 3, 0.0f);
  EXPECT_GT(dark, 100);
}

}  // namespace
}  // namespace oort
