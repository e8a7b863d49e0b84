#include <stdlib.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "client/argument_text.h"
#include "client/cluster_file.h"
#include "client/flagscale_file.h"
#include "client/layer_import.h"
#include "client/report_file.h"
#include "client/router_stats_file.h"
#include "client/scheduler_file.h"
#include "client/script_reading/static_reading.h"
#include "tests/fuzz/expect.h"
#include "tests/fuzz/targets.h"

namespace hapmoe::fuzz {
namespace {

// Parsers that open their file get one, each process its own.
const std::string& Directory() {
  static const auto* const directory = [] {
    auto* path = new std::string("/tmp/hapmoe_fuzz.XXXXXX");
    Expect(mkdtemp(path->data()) != nullptr);
    return path;
  }();
  return *directory;
}

std::string FileOf(const std::string& name, absl::string_view content) {
  const std::string path = Directory() + "/" + name;
  std::ofstream(path, std::ios::binary).write(content.data(), content.size());
  return path;
}

void ExpectFaultsAreTold(const std::vector<client::TextFault>& faults) {
  Expect(faults.size() <= 21);
  for (const client::TextFault& fault : faults) Expect(fault.line >= 0 && !fault.what.empty());
}

}  // namespace

void ReadArgumentText(absl::string_view input) { (void)client::ParseArgumentText(input); }

void ReadClusterFile(absl::string_view input) {
  v1::Cluster cluster;
  ExpectFaultsAreTold(client::ParseCluster(input, cluster));
}

void ReadSchedulerFile(absl::string_view input) {
  v1::LaunchOptions options;
  ExpectFaultsAreTold(client::ParseSchedulerFile(input, options));
}

void ReadMeasuredFiles(absl::string_view input) {
  (void)client::ParsePlanFile("x", input);
  v1::IterationReport report;
  (void)client::AddMeasured("x", input, report);
  (void)client::ParseRouterStatistics("x", input);
}

void ReadLayerTimes(absl::string_view input) {
  for (const auto format : {client::LayerFormat::kSailor, client::LayerFormat::kMetis,
                            client::LayerFormat::kGalvatron}) {
    const char* name = format == client::LayerFormat::kMetis ? "DeviceType.A100_tp2_bs4.json"
                                                             : "computation_profiling_bf16_x.json";
    v1::LayerTable table;
    table.set_sequence_length(2048);
    const bool ok = client::ImportLayers(format, name, input, table).ok();
    Expect(ok || table.tensor_parallel().empty());  // An error leaves the table as it was.
  }
}

void ReadScript(absl::string_view input) {
  client::ScriptRequest request;
  request.script = FileOf("job.sh", input);
  request.arguments = {"first", "2"};
  (void)client::ReadScriptStatically(request);
}

void ReadFlagScale(absl::string_view input) {
  (void)client::ReadFlagScaleFile(FileOf("train.yaml", input));
}

}  // namespace hapmoe::fuzz
