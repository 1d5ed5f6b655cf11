# CUDA is optional when the library is built and when it runs.
set(OORT_HAS_CUDA OFF)
option(OORT_CUDA_LINES "Lines of sources in CUDA code, for Nsight and compute-sanitizer" OFF)
option(OORT_CUDA_QUICK "Optimize CUDA code little: compiles four times faster, for a machine that runs none of it" OFF)

# A package has machine code for Ampere and Hopper; "90" adds PTX for what comes later. Every kind of
# GPU costs its own pass of the compiler, so other builds are for one: that of this machine, or Hopper.
function(oort_choose_gpus result)
  set(gpus 90)
  if(OORT_PACKAGE)
    set(gpus 80-real 90)
  else()
    find_program(OORT_NVIDIA_SMI nvidia-smi)
    mark_as_advanced(OORT_NVIDIA_SMI)
    if(OORT_NVIDIA_SMI)
      execute_process(COMMAND ${OORT_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
        OUTPUT_VARIABLE answer ERROR_QUIET)
      string(REGEX MATCHALL "[0-9]+\\.[0-9]" answer "${answer}")
      list(REMOVE_DUPLICATES answer)
      if(answer)
        list(TRANSFORM answer REPLACE "\\." "")
        list(TRANSFORM answer APPEND -real)
        set(gpus ${answer})
      endif()
    endif()
  endif()
  set(${result} ${gpus} PARENT_SCOPE)
endfunction()

if(NOT OORT_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    oort_choose_gpus(CMAKE_CUDA_ARCHITECTURES)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER AND NOT OORT_SANITIZE)
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(OORT_HAS_CUDA ON)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.25.2 does not know it
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    if(OORT_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${OORT_CCACHE})
    endif()
  elseif(OORT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "OORT_CUDA=ON, but no CUDA compiler was found (or a sanitizer is on)")
  endif()
endif()

# Makes nvcc and its host compiler fast and their code slow.
set(oort_cuda_quick "")
if(OORT_HAS_CUDA AND OORT_CUDA_QUICK AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  set(oort_cuda_quick $<$<COMPILE_LANGUAGE:CUDA>:--Ofast-compile=max$<SEMICOLON>-Xcompiler=-O1>)
endif()
# Machine code for several kinds of GPU, most of which no machine ever reads. Drivers of CUDA 13 read this form.
set(oort_cuda_small "")
if(OORT_HAS_CUDA AND OORT_PACKAGE AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  set(oort_cuda_small $<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>)
endif()

function(oort_cuda_objects name sources)
  set(kernels ${sources})
  list(FILTER kernels INCLUDE REGEX "\\.cu$")
  list(FILTER sources EXCLUDE REGEX "\\.cu$")
  oort_unity_cuda(kernels ${name} "${kernels}")
  add_library(${name} OBJECT ${sources} ${kernels})
  oort_unity(${name} "${sources}")
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include
    ${PROJECT_SOURCE_DIR}/source ${PROJECT_SOURCE_DIR})
  target_include_directories(${name} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_compile_options(${name} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra>
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${OORT_CUDA_LINES}>>:-lineinfo>
    # As in OortCompiler.cmake: gcc 12 sees overlaps in sums of strings.
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
  target_compile_options(${name} PRIVATE ${oort_cuda_quick} ${oort_cuda_small})
  if(OORT_WERROR)
    target_compile_options(${name} PRIVATE
      $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings> $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
  endif()
endfunction()

# Adds what needs CUDA to the target: source/cuda, and everywhere else *.cu, and *.cuda.cpp for what
# calls CUDA from plain C++. source/cuda/host is plain C++ without CUDA and is part of every build;
# *no_cuda.cpp stands in where the build has no CUDA, and so does what OortLayers.cmake makes of
# OORT_CUDA_ONLY in headers of layers. All that includes CUDA's headers is a library
# of its own, so that the rest compiles the same either way.
function(oort_add_cuda target)
  set(folder ${PROJECT_SOURCE_DIR}/source)
  file(GLOB_RECURSE host CONFIGURE_DEPENDS ${folder}/cuda/host/*.cpp)
  target_sources(${target} PRIVATE ${host})
  set(registrations "")
  if(NOT OORT_HAS_CUDA)
    file(GLOB_RECURSE stand_ins CONFIGURE_DEPENDS ${folder}/*no_cuda.cpp)
    target_sources(${target} PRIVATE ${stand_ins})
    oort_generate_cuda_stand_ins(${target})
  else()
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/cuda/*.cpp ${folder}/*.cu
      ${folder}/*.cuda.cpp)
    file(GLOB_RECURSE layers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/layers/*.cu
      ${PROJECT_SOURCE_DIR}/layers/*.cuda.cpp)
    list(FILTER sources EXCLUDE REGEX "no_cuda\\.cpp$|/source/cuda/host/")
    # *.sm90a.cu uses instructions that Hopper alone has, in machine code for it and nothing else.
    set(hopper ${sources} ${layers})
    list(FILTER hopper INCLUDE REGEX "\\.sm90a\\.cu$")
    list(FILTER sources EXCLUDE REGEX "\\.sm90a\\.cu$")
    list(FILTER layers EXCLUDE REGEX "\\.sm90a\\.cu$")
    set(registrations ${layers} ${OORT_LAYER_SOURCES})
    # A rounding less would pick another pixel where torch's arithmetic meets the middle.
    set_source_files_properties(${PROJECT_SOURCE_DIR}/layers/vision/device_grid.cu
      ${PROJECT_SOURCE_DIR}/layers/vision/device_roi.cu PROPERTIES COMPILE_OPTIONS --fmad=false)
    # Constants of tiles with the names that their neighbours give to theirs.
    set(tiles ${PROJECT_SOURCE_DIR}/layers/attention/paged/cuda)
    set_source_files_properties(${tiles}/grouped_decode_attention.cu ${tiles}/prefill_attention.cu PROPERTIES
      SKIP_UNITY_BUILD_INCLUSION ON)
    oort_cuda_objects(${target}_cuda "${sources};${layers}")
    oort_cuda_objects(${target}_hopper "${hopper}")
    set_target_properties(${target}_hopper PROPERTIES CUDA_ARCHITECTURES 90a-real)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_cuda>
      $<TARGET_OBJECTS:${target}_hopper>)
    # Linked only: else CUDA's headers would come to every file.
    target_link_libraries(${target} PRIVATE $<LINK_ONLY:CUDA::cudart_static>)
  endif()
  oort_generate_cuda_table(${target} "${registrations}")
endfunction()
