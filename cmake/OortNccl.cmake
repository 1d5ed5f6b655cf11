# The plug-in that connects GPUs of several ranks by NCCL. It needs nccl.h and no library to be built: it opens
# libnccl.so.2 when ranks ask for it.
if(OORT_NCCL AND OORT_HAS_CUDA)
  # That of pip's nvidia-nccl, or of a package.
  find_path(OORT_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
    DOC "The folder of nccl.h")
  mark_as_advanced(OORT_NCCL_INCLUDE_DIR)
  if(OORT_NCCL_INCLUDE_DIR)
    add_library(oort_nccl MODULE ${PROJECT_SOURCE_DIR}/source/collectives/nccl/nccl_transport.cpp)
    target_include_directories(oort_nccl PRIVATE ${PROJECT_SOURCE_DIR}/source)
    target_include_directories(oort_nccl SYSTEM PRIVATE ${OORT_NCCL_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
    target_link_libraries(oort_nccl PRIVATE ${CMAKE_DL_LIBS})
    set_target_properties(oort_nccl PROPERTIES OUTPUT_NAME oort-nccl CXX_VISIBILITY_PRESET hidden
      LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
    oort_compile_options(oort_nccl)
    if(OORT_INSTALL)
      include(GNUInstallDirs)
      install(TARGETS oort_nccl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT nccl)
    endif()
  elseif(NOT OORT_NCCL STREQUAL "AUTO")
    message(FATAL_ERROR "OORT_NCCL=ON, but there is no nccl.h: OORT_NCCL_INCLUDE_DIR may name its folder")
  endif()
endif()
