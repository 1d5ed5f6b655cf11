# The answers of transformers are JSON.
target_link_libraries(test_parser PRIVATE nlohmann_json::nlohmann_json)
