# Builds the clone that this port lies in.
get_filename_component(SOURCE_PATH ${CURRENT_PORT_DIR}/../../.. ABSOLUTE)
if("cuda" IN_LIST FEATURES)
  set(cuda ON)
else()
  set(cuda OFF)
endif()
vcpkg_cmake_configure(SOURCE_PATH ${SOURCE_PATH}
  OPTIONS -DOORT_TESTS=OFF -DOORT_CLI=OFF -DOORT_SERVE=OFF -DOORT_MPI=OFF -DOORT_INSTALL=ON -DOORT_UNITY=ON
    -DOORT_PACKAGE=ON -DOORT_CUDA=${cuda} -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/oort)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE ${CURRENT_PACKAGES_DIR}/debug/include ${CURRENT_PACKAGES_DIR}/debug/share)
vcpkg_install_copyright(FILE_LIST ${SOURCE_PATH}/LICENSE)
file(INSTALL ${CURRENT_PORT_DIR}/usage DESTINATION ${CURRENT_PACKAGES_DIR}/share/${PORT})
