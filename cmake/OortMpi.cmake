# The plug-ins that connect ranks that mpirun starts. The library opens one when ranks are asked for, and never links
# MPI itself. Open MPI and MPICH have other binaries: liboort-mpi.so is for the one that is the default here, and where
# that is not MPICH, liboort-mpich.so is for MPICH, if it is installed beside it.
if(OORT_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)  # its old bindings of C++ are another library
  if(OORT_MPI STREQUAL "AUTO")
    find_package(MPI QUIET COMPONENTS CXX)
  else()
    find_package(MPI REQUIRED COMPONENTS CXX)
  endif()
  if(MPI_CXX_FOUND AND NOT "${MPI_CXX_INCLUDE_DIRS};${MPI_CXX_LIBRARIES}" MATCHES "mpich")
    find_package(PkgConfig QUIET)
    if(PkgConfig_FOUND)
      pkg_check_modules(OORT_MPICH QUIET IMPORTED_TARGET mpich)
    endif()
  endif()
endif()

function(oort_mpi_plugin target name library)
  add_library(${target} MODULE ${PROJECT_SOURCE_DIR}/source/collectives/mpi/mpi_transport.cpp)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/source)
  target_link_libraries(${target} PRIVATE ${library} Threads::Threads)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} CXX_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  oort_compile_options(${target})
  if(OORT_INSTALL)
    include(GNUInstallDirs)
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mpi)
  endif()
endfunction()

if(OORT_MPI AND MPI_CXX_FOUND)
  oort_mpi_plugin(oort_mpi oort-mpi MPI::MPI_CXX)
  if(OORT_MPICH_FOUND)
    oort_mpi_plugin(oort_mpich oort-mpich PkgConfig::OORT_MPICH)
  endif()
endif()
