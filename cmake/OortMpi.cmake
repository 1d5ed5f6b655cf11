# The plug-in liboort-mpi.so, which connects ranks that mpirun starts. The library opens it when ranks are asked for,
# and never links MPI itself. Open MPI and MPICH have other binaries: it is for the one that is found here.
if(OORT_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)  # its old bindings of C++ are another library
  if(OORT_MPI STREQUAL "AUTO")
    find_package(MPI QUIET COMPONENTS CXX)
  else()
    find_package(MPI REQUIRED COMPONENTS CXX)
  endif()
endif()
if(OORT_MPI AND MPI_CXX_FOUND)
  add_library(oort_mpi MODULE ${PROJECT_SOURCE_DIR}/source/collectives/mpi/mpi_transport.cpp)
  target_include_directories(oort_mpi PRIVATE ${PROJECT_SOURCE_DIR}/source)
  target_link_libraries(oort_mpi PRIVATE MPI::MPI_CXX Threads::Threads)
  set_target_properties(oort_mpi PROPERTIES OUTPUT_NAME oort-mpi CXX_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  oort_compile_options(oort_mpi)
  if(OORT_INSTALL)
    include(GNUInstallDirs)
    install(TARGETS oort_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mpi)
  endif()
endif()
