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

if(OORT_MPI AND MPI_CXX_FOUND)
  oort_plugin(mpi source/collectives/mpi/mpi_transport.cpp MPI::MPI_CXX Threads::Threads)
  set(OORT_PLUGIN_LIBRARIES_mpi ${MPI_CXX_LIBRARIES})
  if(OORT_MPICH_FOUND)
    oort_plugin(mpich source/collectives/mpi/mpi_transport.cpp PkgConfig::OORT_MPICH Threads::Threads)
    set(OORT_PLUGIN_LIBRARIES_mpich ${OORT_MPICH_LINK_LIBRARIES})
  endif()
endif()
