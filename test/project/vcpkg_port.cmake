# Runs the port of packaging/vcpkg over a build that is there already: the functions below stand in for those of vcpkg
# and put files where vcpkg puts them.
#   cmake -DSOURCE=… -DBUILD=… -DCURRENT_PACKAGES_DIR=… -P vcpkg_port.cmake
cmake_minimum_required(VERSION 3.22)
set(PORT oort)
set(CURRENT_PORT_DIR ${SOURCE}/packaging/vcpkg/oort)
set(FEATURES core)

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" SOURCE_PATH OPTIONS)
  if(NOT EXISTS ${arg_SOURCE_PATH}/CMakeLists.txt OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "vcpkg_cmake_configure: ${ARGN}")
  endif()
endfunction()

function(vcpkg_cmake_install)
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${CURRENT_PACKAGES_DIR}
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# The folder of the CMake package becomes share/PORT, and its files look for the prefix from there.
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" CONFIG_PATH "")
  set(from ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH})
  set(to ${CURRENT_PACKAGES_DIR}/share/${PORT})
  file(GLOB files ${from}/*.cmake)
  if(NOT files)
    message(FATAL_ERROR "the port moves ${from}, where no CMake package is")
  endif()
  file(COPY ${files} DESTINATION ${to})
  file(REMOVE_RECURSE ${from})
  file(GLOB files ${to}/*.cmake)
  set(up "get_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\n")
  foreach(file IN LISTS files)
    file(READ ${file} text)
    string(REPLACE "${up}${up}${up}" "${up}${up}" text "${text}")  # share/oort is a folder less deep
    string(REPLACE "\${CMAKE_CURRENT_LIST_DIR}/../../../" "\${CMAKE_CURRENT_LIST_DIR}/../../" text "${text}")
    file(WRITE ${file} "${text}")
  endforeach()
endfunction()

function(vcpkg_fixup_pkgconfig)
  file(GLOB files ${CURRENT_PACKAGES_DIR}/lib/pkgconfig/*.pc)
  foreach(file IN LISTS files)
    file(READ ${file} text)
    string(REGEX REPLACE "(^|\n)prefix=[^\n]*" "\\1prefix=\${pcfiledir}/../.." text "${text}")
    file(WRITE ${file} "${text}")
  endforeach()
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" FILE_LIST)
  file(INSTALL ${arg_FILE_LIST} DESTINATION ${CURRENT_PACKAGES_DIR}/share/${PORT} RENAME copyright)
endfunction()

include(${CURRENT_PORT_DIR}/portfile.cmake)

foreach(name IN ITEMS share/oort/copyright share/oort/usage share/oort/oort-config.cmake include/oort/oort.h
    include/oort/c.h lib/pkgconfig/oort.pc)
  if(NOT EXISTS ${CURRENT_PACKAGES_DIR}/${name})
    message(FATAL_ERROR "the port leaves no ${name}")
  endif()
endforeach()
