// The parts of launch.sh that are the same for all plans, in the order in which they appear.
//
// Variables of the script are in lower case, so that none is also a variable of the environment.
// Arrays that may be empty are expanded as ${a[@]+"${a[@]}"}: bash before 4.4 takes them for unset.
#ifndef HAPMOE_CORE_ENGINE_LAUNCH_SCRIPT_PARTS_H_
#define HAPMOE_CORE_ENGINE_LAUNCH_SCRIPT_PARTS_H_

namespace hapmoe::engine {

// The head comment, behind the name of the engine.
extern const char kUsage[];
// Functions that all modes need.
extern const char kCommon[];
// What runs in every process where stages of one node differ; it starts the entry script.
extern const char kWorker[];
// Functions that set the environment.
extern const char kEnvironment[];
// Reads the options.
extern const char kMain[];
// Starts all nodes of a machine that holds several.
extern const char kSharedHosts[];
// Checks the node rank and the address of node 0.
extern const char kNodeRank[];
// Refuses to start before $backend is confirmed; says $needs.
extern const char kConfirm[];
// The torchrun command without what it starts.
extern const char kCommand[];
// It starts this script again.
extern const char kCommandByProcess[];
// The node's recomputation.
extern const char kCommandByNode[];
// It starts the entry script.
extern const char kCommandPlain[];
// What is printed instead of starting, up to the loop over processes.
extern const char kDryRunStart[];
// The rest of it, and the last check.
extern const char kDryRunEnd[];

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_LAUNCH_SCRIPT_PARTS_H_
