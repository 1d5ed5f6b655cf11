find_package(Armadillo REQUIRED)
target_include_directories(test_arma SYSTEM PRIVATE ${ARMADILLO_INCLUDE_DIRS})
target_link_libraries(test_arma PRIVATE ${ARMADILLO_LIBRARIES})
