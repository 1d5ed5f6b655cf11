# Install rules by component, the package that find_package(oort) finds, and files of pkg-config.
#   runtime      liboort-c.so.1: what programs need that were built with it
#   development  headers, archives, CMake package, pkg-config, the test kit
#   tools        the program oort, two small models, documents
#   mpi, mpich, nccl      a plug-in each, where it is built
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/oort)
install(TARGETS oort EXPORT oort-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
install(TARGETS oort_c oort_c_static EXPORT oort-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
if(TARGET oort_media)
  install(TARGETS oort_media EXPORT oort-targets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
endif()
foreach(name IN LISTS OORT_PLUGINS)
  install(TARGETS oort_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${name})
endforeach()
install(DIRECTORY include/oort DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(EXPORT oort-targets NAMESPACE oort:: DESTINATION ${cmake_folder} COMPONENT development)
if(TARGET oort_testing)
  install(TARGETS oort_testing EXPORT oort-testing-targets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  install(EXPORT oort-testing-targets NAMESPACE oort:: DESTINATION ${cmake_folder} COMPONENT development)
endif()
configure_package_config_file(cmake/oort-config.cmake.in oort-config.cmake INSTALL_DESTINATION ${cmake_folder})
write_basic_package_version_file(oort-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/oort-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/oort-config-version.cmake
  DESTINATION ${cmake_folder} COMPONENT development)

# What an archive of ours needs besides. The files tell their own place, so that a prefix can be moved.
set(OORT_PC_LIBS "-lpthread")
if(OORT_OPENMP)
  string(PREPEND OORT_PC_LIBS "-lgomp ")
endif()
if(OORT_LAPACK OR OORT_HAS_CUDA)
  string(APPEND OORT_PC_LIBS " -ldl")
endif()
if(OORT_HAS_CUDA)
  string(PREPEND OORT_PC_LIBS "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static ")
  string(APPEND OORT_PC_LIBS " -lrt")
endif()
file(RELATIVE_PATH OORT_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
set(pc_files oort oort-c oort-c-static)
set(OORT_PC_MEDIA "")
if(TARGET oort_media)
  set(OORT_PC_MEDIA "-loort_media ")
  list(APPEND pc_files oort-media)
endif()
foreach(name IN LISTS pc_files)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT development)
endforeach()

# A package brings its licence under its own name, as Debian wants it.
set(suffix "")
if(OORT_HAS_CUDA)
  set(suffix -cuda)
endif()
set(OORT_PACKAGE_runtime liboort-c${OORT_C_ABI}${suffix})
set(OORT_PACKAGE_development liboort${suffix}-dev)
set(OORT_PACKAGE_tools oort${suffix})
foreach(name IN LISTS OORT_PLUGINS)
  set(OORT_PACKAGE_${name} liboort-${name}${suffix})
endforeach()
foreach(component IN LISTS OORT_PLUGINS ITEMS runtime development tools)
  set(folder ${CMAKE_INSTALL_DATADIR}/doc/${OORT_PACKAGE_${component}})
  install(FILES LICENSE DESTINATION ${folder} COMPONENT ${component} RENAME copyright)
  install(FILES CHANGELOG.md DESTINATION ${folder} COMPONENT ${component})
endforeach()
if(OORT_CLI)
  install(DIRECTORY models/digits models/storyteller DESTINATION ${CMAKE_INSTALL_DATADIR}/oort/models
    COMPONENT tools FILES_MATCHING PATTERN "*.pnnx.*" PATTERN "labels.txt" PATTERN "*.png" PATTERN "*.safetensors"
    PATTERN "config.json" PATTERN "generation_config.json" PATTERN "tokenizer*.json"
    PATTERN "case" EXCLUDE PATTERN "drawn" EXCLUDE)
endif()
if(OORT_TOP_LEVEL)
  include(OortPackages)
endif()
