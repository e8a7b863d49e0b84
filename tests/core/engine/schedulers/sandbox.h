// A folder of its own in which scripts are run with programs of the test in place of real ones.
#ifndef HAPMOE_TESTS_CORE_ENGINE_SCHEDULERS_SANDBOX_H_
#define HAPMOE_TESTS_CORE_ENGINE_SCHEDULERS_SANDBOX_H_

#include <map>
#include <string>
#include <vector>

namespace hapmoe::engine {

struct SandboxOutcome {
  int exit_code = -1;
  std::string out;
  std::string error;
};

// The folder's name holds a blank. It goes with the object.
class Sandbox {
 public:
  Sandbox();
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  std::string Path(const std::string& name) const { return root_ + "/" + name; }
  // Executable. Names may hold one folder: bin/ is first on the path.
  void Write(const std::string& name, const std::string& content) const;
  std::string Read(const std::string& name) const;
  // Words that a program wrote, each with a NUL behind it.
  std::vector<std::string> ReadWords(const std::string& name) const;
  // Empties out/, where $STUB_OUT points to.
  void Clear() const;

  // Runs bash with these words in the folder work/, with nothing else in the environment.
  SandboxOutcome Run(const std::vector<std::string>& words,
                     const std::map<std::string, std::string>& environment) const;

  // Whether a script wrote anything into the folder that it ran in.
  bool WorkIsEmpty() const;

 private:
  std::string root_;
};

}  // namespace hapmoe::engine

#endif  // HAPMOE_TESTS_CORE_ENGINE_SCHEDULERS_SANDBOX_H_
