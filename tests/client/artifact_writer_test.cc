#include "client/artifact_writer.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/job_directory.h"

namespace hapmoe::client {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

using Artifacts = google::protobuf::RepeatedPtrField<v1::Artifact>;

class ArtifactWriterTest : public ::testing::Test {
 protected:
  static void Add(Artifacts& artifacts, const std::string& name, const std::string& content,
                  bool executable = false) {
    v1::Artifact& artifact = *artifacts.Add();
    artifact.set_name(name);
    artifact.set_content(content);
    artifact.set_executable(executable);
  }

  // Files below the root, as relative paths.
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(root_.path())) {
      if (!entry.is_directory()) files.push_back(fs::relative(entry.path(), root_.path()));
    }
    return files;
  }

  JobDirectory root_;
};

TEST_F(ArtifactWriterTest, WritesFilesIntoANewDirectory) {
  Artifacts artifacts;
  Add(artifacts, "launch.sh", "#!/bin/bash\n", /*executable=*/true);
  Add(artifacts, "k8s/jobs/job.yaml", std::string("a\0b", 3));
  const fs::path out = root_ / "a" / "b";
  ASSERT_TRUE(WriteArtifacts(artifacts, out).ok());
  EXPECT_EQ(root_.Read(out / "launch.sh"), "#!/bin/bash\n");
  EXPECT_EQ(root_.Read(out / "k8s/jobs/job.yaml"), std::string("a\0b", 3));
  EXPECT_EQ(access((out / "launch.sh").c_str(), X_OK), 0);
  struct stat plain {};
  ASSERT_EQ(stat((out / "k8s/jobs/job.yaml").c_str(), &plain), 0);
  EXPECT_EQ(plain.st_mode & 0111, 0u);
  EXPECT_THAT(Files(), UnorderedElementsAre("a/b/launch.sh", "a/b/k8s/jobs/job.yaml"));
}

TEST_F(ArtifactWriterTest, NamesFilesOfOtherPlans) {
  Artifacts before;
  for (const char* name : {"launch.sh", "job.sbatch", "train/job.yaml", "notes.txt"}) {
    Add(before, name, "");
  }
  ASSERT_TRUE(WriteArtifacts(before, root_.path()).ok());
  Artifacts after;
  Add(after, "launch.sh", "");
  EXPECT_THAT(FilesOfOtherPlans(after, root_.path()),
              UnorderedElementsAre("job.sbatch", "train/job.yaml"));
  EXPECT_THAT(FilesOfOtherPlans(before, root_.path()), ::testing::IsEmpty());
  EXPECT_THAT(FilesOfOtherPlans(after, root_ / "missing"), ::testing::IsEmpty());
}

TEST_F(ArtifactWriterTest, ReplacesFilesAndTheirMode) {
  Artifacts artifacts;
  Add(artifacts, "x", "old", true);
  ASSERT_TRUE(WriteArtifacts(artifacts, root_.path()).ok());
  artifacts.Clear();
  Add(artifacts, "x", "new");
  ASSERT_TRUE(WriteArtifacts(artifacts, root_.path()).ok());
  EXPECT_EQ(root_.Read("x"), "new");
  struct stat plain {};
  ASSERT_EQ(stat((root_ / "x").c_str(), &plain), 0);
  EXPECT_EQ(plain.st_mode & 0111, 0u);
}

TEST_F(ArtifactWriterTest, RefusesNamesThatLeaveTheDirectoryAndWritesNothing) {
  const fs::path out = root_ / "out";
  for (const std::string& name :
       std::vector<std::string>{"", "/etc/x", "../x", "a/../../x", "..", ".", "a//b", "a/", "./x",
                                "a\nb", "a\x1b", std::string("a\0b", 3), std::string(201, 'a')}) {
    SCOPED_TRACE(name);
    Artifacts artifacts;
    Add(artifacts, "good", "1");
    Add(artifacts, name, "2");
    EXPECT_EQ(WriteArtifacts(artifacts, out).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(Files().empty());
  }
}

TEST_F(ArtifactWriterTest, RefusesANameThatOccursTwice) {
  Artifacts artifacts;
  Add(artifacts, "a", "1");
  Add(artifacts, "a", "2");
  EXPECT_THAT(std::string(WriteArtifacts(artifacts, root_.path()).message()), HasSubstr("twice"));
}

TEST_F(ArtifactWriterTest, DoesNotFollowLinksOutOfTheDirectory) {
  fs::create_directories(root_ / "out");
  fs::create_directories(root_ / "elsewhere");
  fs::create_directory_symlink(root_ / "elsewhere", root_ / "out" / "link");
  root_.Write("elsewhere/file", "precious");
  fs::create_symlink(root_ / "elsewhere/file", root_ / "out" / "file");

  Artifacts through_directory;
  Add(through_directory, "link/x", "1");
  EXPECT_FALSE(WriteArtifacts(through_directory, root_ / "out").ok());
  EXPECT_FALSE(fs::exists(root_ / "elsewhere" / "x"));

  Artifacts over_link;
  Add(over_link, "file", "new");
  ASSERT_TRUE(WriteArtifacts(over_link, root_ / "out").ok());
  EXPECT_EQ(root_.Read("elsewhere/file"), "precious");
  EXPECT_EQ(root_.Read("out/file"), "new");
}

TEST_F(ArtifactWriterTest, LeavesNothingBehindWhenAFileCannotBeWritten) {
  fs::create_directories(root_ / "b");  // In the way of the file b.
  root_.Write("b/c", "x");
  root_.Write("d", "x");  // In the way of the directory d.
  Artifacts artifacts;
  Add(artifacts, "a", "1");
  Add(artifacts, "d/e", "2");
  EXPECT_FALSE(WriteArtifacts(artifacts, root_.path()).ok());
  EXPECT_THAT(Files(), UnorderedElementsAre("b/c", "d"));
}

TEST_F(ArtifactWriterTest, SaysWhyADirectoryCannotBeMade) {
  root_.Write("file", "x");
  Artifacts artifacts;
  Add(artifacts, "a", "1");
  EXPECT_THAT(std::string(WriteArtifacts(artifacts, root_ / "file" / "out").message()),
              HasSubstr("cannot open the directory"));
}

}  // namespace
}  // namespace hapmoe::client
