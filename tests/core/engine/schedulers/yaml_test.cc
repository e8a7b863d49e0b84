// The writer of YAML: layout and quoting. kubernetes_manifest_test reads back what it writes.
#include "core/engine/schedulers/yaml.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace hapmoe::engine {
namespace {

std::string Written(const Yaml& value) {
  Yaml map = Yaml::Map();
  map.Set("k", value);
  return map.Document();
}

TEST(YamlTest, QuotesTextThatCouldBeTakenForSomethingElse) {
  struct Case {
    const char* text;
    const char* written;
  };
  for (const Case& one :
       std::vector<Case>{{"JobSet", "k: JobSet\n"},
                         {"jobset.x-k8s.io/v1alpha2", "k: jobset.x-k8s.io/v1alpha2\n"},
                         {"/dev/shm", "k: /dev/shm\n"},
                         {"HOME_2", "k: HOME_2\n"},
                         {"", "k: \"\"\n"},
                         {"yes", "k: \"yes\"\n"},
                         {"No", "k: \"No\"\n"},
                         {"y", "k: \"y\"\n"},
                         {"TRUE", "k: \"TRUE\"\n"},
                         {"null", "k: \"null\"\n"},
                         {"Infinity", "k: \"Infinity\"\n"},
                         {"1e3", "k: \"1e3\"\n"},
                         {".inf", "k: \".inf\"\n"},
                         {"-", "k: \"-\"\n"},
                         {"---", "k: \"---\"\n"},
                         {"a: b", "k: \"a: b\"\n"},
                         {"a #b", "k: \"a #b\"\n"},
                         {"*a", "k: \"*a\"\n"},
                         {"a\"b\\c", "k: \"a\\\"b\\\\c\"\n"},
                         {"a\nb\r\t", "k: \"a\\nb\\u000d\\u0009\"\n"},
                         {"\xc3\xa9\xe2\x82\xac", "k: \"\\u00e9\\u20ac\"\n"},
                         {"\xf0\x9f\x98\x80", "k: \"\\U0001f600\"\n"},
                         {"\x7f", "k: \"\\u007f\"\n"},
                         // Not UTF-8: a lone byte, an overlong slash, a surrogate, a cut sequence.
                         {"a\xff", "k: \"a\\ufffd\"\n"},
                         {"\xc0\xaf", "k: \"\\ufffd\\ufffd\"\n"},
                         {"\xed\xa0\x80", "k: \"\\ufffd\\ufffd\\ufffd\"\n"},
                         {"\xe2\x82", "k: \"\\ufffd\\ufffd\"\n"}}) {
    EXPECT_EQ(Written(Yaml::Text(one.text)), one.written);
  }
  Yaml keys = Yaml::Map();
  keys.Set("on", "a").Set("a: b", "c").Set("a.b/c", "d");
  EXPECT_EQ(keys.Document(), "\"on\": a\n\"a: b\": c\na.b/c: d\n");
}

TEST(YamlTest, WritesLinesAsTheyAreWhereNothingIsLost) {
  EXPECT_EQ(Written(Yaml::Lines("#!/bin/sh\n\techo 'a: b' \n\n  # c\n")),
            "k: |\n  #!/bin/sh\n  \techo 'a: b' \n\n    # c\n");
  EXPECT_EQ(Written(Yaml::Lines("a")), "k: a\n");
  EXPECT_EQ(Written(Yaml::Lines("a\n\n")), "k: \"a\\n\\n\"\n");
  EXPECT_EQ(Written(Yaml::Lines(" a\n")), "k: \" a\\n\"\n");
  EXPECT_EQ(Written(Yaml::Lines("\n")), "k: \"\\n\"\n");
  EXPECT_EQ(Written(Yaml::Lines("a\r\n")), "k: \"a\\u000d\\n\"\n");
  EXPECT_EQ(Written(Yaml::Lines("\xc3\xa9\n")), "k: \"\\u00e9\\n\"\n");
}

TEST(YamlTest, NestsMapsAndLists) {
  Yaml inner = Yaml::Map();
  inner.Set("a", Yaml::Number(-1)).Set("b", Yaml::List().Add(Yaml::Flag(true)));
  Yaml list = Yaml::List();
  list.Add(inner).Add(Yaml::List().Add(Yaml::Text("c")).Add(Yaml::Text("d")));
  list.Add(Yaml::Map()).Add(Yaml::Lines("e\nf\n"));
  Yaml map = Yaml::Map();
  map.Set("list", list).Set("empty", Yaml::List()).Set("map", Yaml::TextMap({{"x", "y"}}));
  EXPECT_EQ(map.Document(),
            "list:\n"
            "  - a: -1\n"
            "    b:\n"
            "      - true\n"
            "  - - c\n"
            "    - d\n"
            "  - {}\n"
            "  - |\n"
            "    e\n"
            "    f\n"
            "empty: []\n"
            "map:\n"
            "  x: \"y\"\n");
}

}  // namespace
}  // namespace hapmoe::engine
