# The plug-in that connects GPUs of several ranks by NCCL. It needs nccl.h and no library to be built: it opens
# libnccl.so.2 when ranks ask for it.
if(OORT_NCCL AND OORT_HAS_CUDA)
  # That of pip's nvidia-nccl, or of a package.
  find_path(OORT_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
    DOC "The folder of nccl.h")
  mark_as_advanced(OORT_NCCL_INCLUDE_DIR)
  if(OORT_NCCL_INCLUDE_DIR)
    oort_plugin(nccl source/collectives/nccl/nccl_transport.cpp ${CMAKE_DL_LIBS})
    target_include_directories(oort_nccl SYSTEM PRIVATE ${OORT_NCCL_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
  elseif(NOT OORT_NCCL STREQUAL "AUTO")
    message(FATAL_ERROR "OORT_NCCL=ON, but there is no nccl.h: OORT_NCCL_INCLUDE_DIR may name its folder")
  endif()
endif()
