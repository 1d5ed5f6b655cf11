# Warnings and sanitizers, for every target of ours.
function(oort_compile_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow
    -Wnon-virtual-dtor -Woverloaded-virtual -Wno-missing-field-initializers)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 sees overlaps in "literal" + std::string that are not there (GCC bug 105329).
    target_compile_options(${target} PRIVATE -Wno-restrict)
    if(OORT_PCH)
      # Precompiled, std::string is no longer code of the system, and GCC 12 sees sizes beyond all
      # bounds in it.
      target_compile_options(${target} PRIVATE -Wno-stringop-overflow -Wno-stringop-overread
        -Wno-array-bounds)
    endif()
    if(OORT_UNITY)
      # GCC spends a twentieth of its time on collecting garbage, which most groups of files have memory enough not to
      # need. All such builds alike, so that ccache finds for a package what the tests have compiled.
      target_compile_options(${target} PRIVATE --param=ggc-min-heapsize=400000)
    endif()
  endif()
  if(OORT_CCACHE AND OORT_PCH)  # from scratch: names in messages of tests are the same in every clone
    target_compile_options(${target} PRIVATE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
  endif()
  if(OORT_PCH AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # A fresh clone has other times, and ccache would find nothing for it.
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
  if(OORT_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(OORT_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${OORT_SANITIZE} -fno-omit-frame-pointer
      -fno-sanitize-recover=all)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # Instrumented, GCC 12 takes the members of a std::variant for uninitialized.
      target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${OORT_SANITIZE})
  endif()
  if(OORT_FUZZ_COVERAGE)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# Packages have the short relocations that glibc reads from 2.36 on, their floor (tools/check-glibc). That this machine
# reads them is tried, since an older glibc would refuse the program only when it starts.
if(OORT_PACKAGE)
  include(CheckCXXSourceRuns)
  set(CMAKE_REQUIRED_LINK_OPTIONS -Wl,-z,pack-relative-relocs)
  check_cxx_source_runs("int main() {}" OORT_SHORT_RELOCATIONS)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
endif()

# What nobody calls leaves a program or a library: most of it are instances of templates that were inlined wherever they
# are used.
function(oort_link_without_unused target)
  if(OORT_SANITIZE)
    return()
  endif()
  target_link_options(${target} PRIVATE LINKER:--gc-sections)
  if(OORT_SHORT_RELOCATIONS)
    target_link_options(${target} PRIVATE LINKER:-z,pack-relative-relocs)
  endif()
endfunction()

# For programs that only test: they compute little, and optimizing them took half of the time that a
# build of the tests takes.
set(OORT_TEST_OPTIMIZATION -O0 CACHE STRING "How the code of tests is optimized")
mark_as_advanced(OORT_TEST_OPTIMIZATION)
# There are some fifty of them in each build, and all contain most of the library: LLVM's linker, where it is installed.
# What leaves this machine is linked by the compiler's own.
function(oort_link_quickly target)
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=lld OORT_LINKS_BY_LLD)
  if(OORT_LINKS_BY_LLD)
    target_link_options(${target} PRIVATE -fuse-ld=lld)
  endif()
endfunction()
function(oort_test_compile_options target)
  oort_compile_options(${target})
  oort_link_quickly(${target})
  target_compile_options(${target} PRIVATE ${OORT_TEST_OPTIMIZATION})
  if(OORT_FULL_TESTS)
    target_compile_definitions(${target} PRIVATE OORT_FULL_TESTS)
  endif()
  if(OORT_SANITIZE MATCHES undefined)
    # Not optimized, loops with checks of every sum take minutes; it is the library that is tested.
    target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
  endif()
endfunction()

# Not by default: what is precompiled hides includes that are missing.
option(OORT_PCH "Precompile the headers that most files include: faster from scratch" OFF)
set(CMAKE_PCH_WARN_INVALID OFF)  # a file with options of its own reads the headers themselves

# Headers of the system only. Ours would save a tenth of a second a file, and cost more: a file that includes one of
# them would be compiled again when any of them changes, and what ccache returns for a header that differs by a comment
# is to GCC another file than the one in the tree, which it then reads a second time in spite of #pragma once.
set(OORT_PCH_HEADERS <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <complex> <cstdint> <cstring>
  <filesystem> <functional> <map> <memory> <mutex> <numeric> <optional> <set> <span> <stop_token> <string>
  <string_view> <unordered_map> <utility> <variant> <vector>)
function(oort_precompile_headers target)
  if(OORT_PCH)
    target_precompile_headers(${target} PRIVATE ${OORT_PCH_HEADERS} ${ARGN})
  endif()
endfunction()

# What one clone has compiled serves all others: paths are told from the project's folder.
if(NOT DEFINED OORT_CCACHE_PROGRAM)  # not once more: installed later, it would compile everything again
  find_program(OORT_CCACHE_PROGRAM ccache)
endif()
if(OORT_CCACHE_PROGRAM)
  set(OORT_CCACHE ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    ${OORT_CCACHE_PROGRAM})
  if(OORT_PCH)  # else it keeps nothing that was compiled with precompiled headers
    list(INSERT OORT_CCACHE 3 CCACHE_SLOPPINESS=pch_defines,time_macros)
  endif()
endif()
if(OORT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${OORT_CCACHE})
endif()
