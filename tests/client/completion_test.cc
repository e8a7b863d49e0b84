#include "client/completion.h"

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/option_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/job_directory.h"

namespace hapmoe::client {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

class CompletionTest : public ::testing::Test {
 protected:
  // What a command prints.
  static std::string Output(const std::string& command) {
    std::string out;
    FILE* pipe = popen(command.c_str(), "r");
    char buffer[4096];
    for (size_t read; (read = fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
      out.append(buffer, read);
    EXPECT_EQ(pclose(pipe), 0) << command << "\n" << out;
    return out;
  }

  // What bash offers for the last of these words.
  std::vector<std::string> Offered(const std::vector<std::string>& words) const {
    std::string quoted;
    for (const std::string& word : words) absl::StrAppend(&quoted, " '", word, "'");
    root_.Write("ask.sh", absl::StrCat("source ", script_, "\nCOMP_WORDS=(hapmoe", quoted,
                                       ")\nCOMP_CWORD=", words.size(),
                                       "\n_hapmoe\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n"));
    return absl::StrSplit(Output(absl::StrCat("bash ", root_.path().string(), "/ask.sh")), '\n',
                          absl::SkipEmpty());
  }

  JobDirectory root_;
  std::string script_ = root_.Write("completion.bash", BashCompletion());
};

TEST_F(CompletionTest, OffersCommandsOptionsAndValues) {
  EXPECT_THAT(Offered({"pl"}), ElementsAre("plan"));
  EXPECT_THAT(Offered({"plan", "--sch"}), ElementsAre("--scheduler", "--scheduler-file"));
  EXPECT_THAT(Offered({"plan", "--scheduler", ""}), ElementsAre("slurm", "jobset", "volcano"));
  EXPECT_THAT(Offered({"plan", "--output", "=", "j"}), ElementsAre("json"));
  EXPECT_THAT(Offered({"plan", "--output", "="}), ElementsAre("text", "json"));
  EXPECT_THAT(Offered({"plan", "-o", "t"}), ElementsAre("text"));
  EXPECT_THAT(Offered({"plan", "--allow-idle", ""}),
              AllOf(Contains("--cluster"), Not(Contains("--batch"))));
  EXPECT_THAT(Offered({"profiles", "c"}), ElementsAre("coverage"));
  EXPECT_THAT(Offered({"report", ""}), AllOf(Contains("factors"), Contains("--seconds")));
}

TEST_F(CompletionTest, LeavesFilesAndArgumentsOfTheJobToBash) {
  EXPECT_THAT(Offered({"plan", "--cluster", ""}), IsEmpty());
  EXPECT_THAT(Offered({"plan", "--cluster", "x", "--", "--t"}), IsEmpty());
  EXPECT_THAT(Offered({"profiles", "put", "pl"}), IsEmpty());
  EXPECT_THAT(Offered({"nonsense", "--"}), IsEmpty());
}

TEST_F(CompletionTest, IsCleanUnderShellcheck) {
  if (std::system("command -v shellcheck >/dev/null") != 0) {
    GTEST_SKIP() << "shellcheck is not installed";
  }
  EXPECT_EQ(Output("shellcheck " + script_), "");
}

// The table says nothing that is not so.
TEST(OptionTableTest, ChoicesAreValuesThatTheOptionsTake) {
  for (const command_line::Option& option : command_line::AllOptions()) {
    const std::vector<std::string> choices = absl::StrSplit(option.choices, ' ', absl::SkipEmpty());
    for (const std::string& choice : choices) {
      Options options;
      EXPECT_TRUE(option.set(choice, options).ok()) << option.name << " " << choice;
    }
  }
}

}  // namespace
}  // namespace hapmoe::client
