// SPDX-License-Identifier: MIT
// Broken .bin files: each gives its own clear error.
#include "zoo.h"

namespace oort::testing {
namespace {

using enum ErrorCode;

ZipSpec& Bias(Model& model) { return model.entries[0]; }
ZipSpec& Weight(Model& model) { return model.entries[1]; }

const Broken kBins[] = {
    // Files that are something else.
    {"empty", [](Model& m) { m.whole_bin = ""; }, kInvalidModel, "it is empty"},
    {"html", [](Model& m) { m.whole_bin = "<html>Not found</html>"; }, kInvalidModel, "web page"},
    {"lfs_pointer", [](Model& m) { m.whole_bin = "version https://git-lfs.github.com/spec/v1\n"; },
     kInvalidModel, "Git LFS pointer"},
    {"gguf", [](Model& m) { m.whole_bin = "GGUF1234"; }, kInvalidModel, "GGUF"},
    {"param_again", [](Model& m) { m.whole_bin = m.param; }, kInvalidModel,
     "begins as a .param does"},
    {"raw_weights", [](Model& m) { m.whole_bin = Model::Numbers(40); }, kInvalidModel,
     "instead of 'PK' (is it an ncnn .bin?)"},
    {"zeros", [](Model& m) { m.whole_bin = std::string(1000, '\0'); }, kInvalidModel,
     "instead of 'PK'"},
    {"only_a_signature", [](Model& m) { m.whole_bin = "PK\3\4"; }, kInvalidModel,
     "too short for a zip"},
    {"pk_and_noise", [](Model& m) { m.whole_bin = "PK" + std::string(100, 'x'); }, kInvalidModel,
     "no end record"},
    {"other_zip",
     [](Model& m) {
       m.entries = {{"archive/data.pkl", "x"}};
     },
     kInvalidModel, "attribute 'bias': missing"},
    // The end record and the directory.
    {"bytes_after", [](Model& m) { m.zip.after = "\n"; }, kInvalidModel, "not at the end"},
    {"split", [](Model& m) { m.zip.disk = 1; }, kInvalidModel, "split over several files"},
    {"split_64", [](Model& m) { m.zip = {.zip64 = true, .disk = 1}; }, kInvalidModel,
     "split over several files"},
    {"entries_too_many", [](Model& m) { m.zip.entries = 5000; }, kInvalidModel,
     "claims 5000 entries"},
    {"entries_huge", [](Model& m) { m.zip = {.zip64 = true, .entries = UINT64_MAX}; },
     kInvalidModel, "claims 18446744073709551615 entries"},
    {"entries_one_more",
     [](Model& m) {
       m.entries.push_back({std::string(60, 'x'), ""});
       m.zip.entries = 4;
     },
     kInvalidModel, "damaged at entry 3"},
    {"entries_too_few", [](Model& m) { m.zip.entries = 1; }, kInvalidModel,
     "more than the entries it counts"},
    {"directory_out_of_range", [](Model& m) { m.zip.directory_offset = 100000; }, kInvalidModel,
     "directory lies out of range"},
    {"directory_misplaced", [](Model& m) { m.zip.directory_offset = 3; }, kInvalidModel,
     "damaged at entry 0"},
    {"directory_offset_wraps",
     [](Model& m) { m.zip = {.zip64 = true, .directory_offset = UINT64_MAX - 10}; }, kInvalidModel,
     "directory lies out of range"},
    {"directory_size_wraps",
     [](Model& m) { m.zip = {.zip64 = true, .directory_size = UINT64_MAX - 10}; }, kInvalidModel,
     "directory lies out of range"},
    {"directory_size_huge", [](Model& m) { m.zip.directory_size = 0xfffffffe; }, kInvalidModel,
     "directory lies out of range"},
    {"end64_out_of_range",
     [](Model& m) { m.zip = {.zip64 = true, .end64_offset = UINT64_MAX - 30}; }, kInvalidModel,
     "ZIP64 end record is out of range"},
    {"end64_damaged", [](Model& m) { m.zip = {.zip64 = true, .end64_offset = 0}; }, kInvalidModel,
     "ZIP64 end record is damaged"},
    {"locator_missing",
     [](Model& m) {
       std::string bin = BuildZip(m.entries, {.zip64 = true});
       m.whole_bin = bin.replace(bin.rfind("PK\6\7"), 4, "xxxx");
     },
     kInvalidModel, "split over several files"},
    {"name_past_the_directory",
     [](Model& m) {
       std::string bin = m.Bin();
       m.whole_bin = bin.replace(bin.rfind("PK\1\2") + 28, 2, "\xff\xff");
     },
     kInvalidModel, "damaged at entry 1"},
    // Entries.
    {"encrypted", [](Model& m) { Bias(m).flags = 1; }, kInvalidModel,
     "zip entry 'conv.bias': is encrypted"},
    {"encrypted_strongly", [](Model& m) { Bias(m).flags = 0x41; }, kInvalidModel, "is encrypted"},
    {"encrypted_directory", [](Model& m) { Bias(m).flags = 0x2000; }, kInvalidModel,
     "is encrypted"},
    {"encrypted_locally", [](Model& m) { Bias(m).local_flags = 1; }, kInvalidModel, "is encrypted"},
    {"deflated", [](Model& m) { Weight(m).method = 8; }, kInvalidModel,
     "zip entry 'conv.weight': is compressed (method 8)"},
    {"zstd", [](Model& m) { Weight(m).method = 93; }, kInvalidModel, "(method 93)"},
    {"sizes_differ", [](Model& m) { Weight(m).compressed_size = 5; }, kInvalidModel,
     "its two sizes differ: 5 and 144"},
    {"twice", [](Model& m) { m.entries.push_back(m.entries[0]); }, kInvalidModel,
     "zip entry 'conv.bias': stands in the zip twice"},
    {"overlap_whole",
     [](Model& m) {
       // Two names for the same bytes: the second local header lies inside the first payload.
       const ZipSpec inner{"conv.weight", Model::Numbers(36)};
       std::string bytes = BuildZip({inner});
       bytes.resize(bytes.find("PK\1\2"));
       m.entries = {{"conv.bias", bytes},
                    {.name = "conv.weight", .bytes = inner.bytes, .offset = 30 + 9}};
     },
     kInvalidModel, "zip entry 'conv.weight': overlaps 'conv.bias'"},
    {"overlap_same_header", [](Model& m) { Weight(m).offset = 0; }, kInvalidModel,
     "zip entry 'conv.weight': has another name in its own header"},
    {"offset_out_of_range", [](Model& m) { Weight(m).offset = 100000; }, kInvalidModel,
     "zip entry 'conv.weight': lies out of range at 100000"},
    {"offset_wraps",
     [](Model& m) {
       m.zip.zip64 = true;
       Weight(m).offset = UINT64_MAX - 5;
     },
     kInvalidModel, "lies out of range at 18446744073709551610"},
    {"offset_elsewhere", [](Model& m) { Weight(m).offset = 7; }, kInvalidModel,
     "has no header at 7"},
    {"size_out_of_range", [](Model& m) { Weight(m).size = 100000; }, kInvalidModel,
     "its 100000 bytes lie out of range"},
    {"size_wraps",
     [](Model& m) {
       m.zip.zip64 = true;
       Weight(m).size = UINT64_MAX - 5;
     },
     kInvalidModel, "bytes lie out of range"},
    {"size_into_directory", [](Model& m) { Weight(m).size = 145; }, kInvalidModel,
     "its 145 bytes lie out of range"},
    {"zip64_field_missing",
     [](Model& m) {
       std::string bin = m.Bin();
       m.whole_bin = bin.replace(bin.rfind("PK\1\2") + 20, 8, "\xff\xff\xff\xff\xff\xff\xff\xff");
     },
     kInvalidModel, "its ZIP64 field is missing or too short"},
    {"zip64_field_short", [](Model& m) { m.zip = {.zip64 = true, .zip64_length = 20}; },
     kInvalidModel, "its ZIP64 field is missing or too short"},
    {"local_name", [](Model& m) { Bias(m).local_name = "conv.base"; }, kInvalidModel,
     "has another name in its own header"},
    {"local_size", [](Model& m) { Bias(m).local_size = 4; }, kInvalidModel,
     "its own header contradicts the directory"},
    {"local_crc", [](Model& m) { Bias(m).local_crc = 4; }, kInvalidModel,
     "its own header contradicts the directory"},
    {"crc", [](Model& m) { Bias(m).crc = 4; }, kInvalidModel,
     "attribute 'bias': its bytes do not fit their CRC-32 checksum"},
    {"payload_damaged",
     [](Model& m) {
       Weight(m).crc = SlowCrc32(Weight(m).bytes);
       Weight(m).bytes[17] ^= 4;
     },
     kInvalidModel, "attribute 'weight': its bytes do not fit their CRC-32 checksum"},
    // Against the .param.
    {"attribute_missing", [](Model& m) { m.entries.pop_back(); }, kInvalidModel,
     "operator 'conv' (nn.Conv2d, line 4): attribute 'weight': missing"},
    {"attribute_too_short", [](Model& m) { Bias(m).bytes.pop_back(); }, kInvalidModel,
     "attribute 'bias': (2)f32 needs 8 bytes, but the zip entry has 7"},
    {"attribute_too_long", [](Model& m) { Bias(m).bytes += "x"; }, kInvalidModel,
     "needs 8 bytes, but the zip entry has 9"},
    {"attribute_other_dtype", [](Model& m) { m.Replace("@bias=(2)f32", "@bias=(2)f64"); },
     kInvalidModel, "(2)f64 needs 16 bytes, but the zip entry has 8"},
    {"entry_for_two",
     [](Model& m) {
       m.AddLine("pnnx.Attribute c 0 1 9 @onv.bias=(2)f32 @d=(2)f32", 1);
       m.Replace("pnnx.Attribute c ", "pnnx.Attribute conv.x ");
       m.Replace("@onv.bias=(2)f32 @d", "@y");
       m.Replace("@bias=(2)f32", "@bias=(2)f32 @x.y=(2)f32");
       m.entries.push_back({"conv.x.y", Model::Numbers(2)});
     },
     kInvalidModel, "another attribute has the same zip entry already"},
};

INSTANTIATE_TEST_SUITE_P(Bin, Zoo, ::testing::ValuesIn(kBins), BrokenName);

}  // namespace
}  // namespace oort::testing
