# Install rules and the package that find_package(oort) finds.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS oort EXPORT oort-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/oort DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT oort-targets NAMESPACE oort:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/oort)
if(TARGET oort_testing)
  install(TARGETS oort_testing EXPORT oort-testing-targets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT oort-testing-targets NAMESPACE oort::
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/oort)
endif()
configure_package_config_file(cmake/oort-config.cmake.in oort-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/oort)
write_basic_package_version_file(oort-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/oort-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/oort-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/oort)
