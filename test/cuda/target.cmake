# Tests of kernels, which only a build with CUDA holds. They skip where there is no GPU.
if(OORT_HAS_CUDA)
  file(GLOB kernel_tests CONFIGURE_DEPENDS ${folder}/*.cuda.cpp)
  target_sources(test_cuda PRIVATE ${kernel_tests})
endif()
