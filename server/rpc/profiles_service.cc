#include "server/rpc/profiles_service.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/errors/errors.h"
#include "server/rpc/unary_call.h"

namespace hapmoe::server {
namespace {

constexpr int32_t kDefaultPageSize = 50;
constexpr int32_t kMaxPageSize = 1000;

v1::ProfileSummary Summarize(const ProfileEntry& entry) {
  const profile::AcceleratorProfile& profile = *entry.core;
  v1::ProfileSummary summary;
  summary.set_accelerator(profile.name);
  for (const std::string& alias : profile.aliases) summary.add_aliases(alias);
  summary.set_vendor(profile.vendor);
  summary.set_memory_capacity_bytes(profile.memory_bytes);
  summary.set_matrix_flops_per_second(
      profile.bf16_flops_per_second.value_or(profile.fp16_flops_per_second.value_or(0)));
  int64_t samples = 0;
  for (const profile::OperationTable& table : profile.tables) {
    samples += static_cast<int64_t>(table.samples().seconds.size());
  }
  summary.set_sample_count(samples);
  summary.set_version(entry.version);
  summary.set_origin(entry.origin);
  return summary;
}

absl::Status List(const ProfileCatalog& catalog, const v1::ListProfilesRequest& request,
                  v1::ListProfilesResponse& response) {
  if (request.page_size() < 0) {
    return InvalidError(
        Reason::kRequestInvalid,
        {{"page_size_not_negative", "page_size",
          absl::StrCat("Must not be negative, but is ", request.page_size(), ".")}});
  }
  const int32_t size =
      request.page_size() == 0 ? kDefaultPageSize : std::min(request.page_size(), kMaxPageSize);
  absl::StatusOr<ProfileCatalog::Page> page =
      catalog.List(static_cast<size_t>(size), request.page_token());
  if (!page.ok()) return Error(Reason::kPageTokenInvalid);
  for (const ProfileEntryPtr& entry : page->entries) {
    *response.add_profiles() = Summarize(*entry);
  }
  response.set_next_page_token(std::move(page->next_token));
  return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* ProfilesServiceImpl::PutProfile(grpc::CallbackServerContext* context,
                                                          const v1::PutProfileRequest* request,
                                                          v1::PutProfileResponse* response) {
  return UnaryCall::Queue(environment_, environment_.storage_pool, Method::kPutProfile, *context,
                          *request, [this, request, response](const std::shared_ptr<Interrupter>&) {
                            const absl::StatusOr<int64_t> version =
                                profiles_.Put(request->profile());
                            if (!version.ok()) return version.status();
                            response->set_version(*version);
                            return absl::OkStatus();
                          });
}

grpc::ServerUnaryReactor* ProfilesServiceImpl::GetProfile(grpc::CallbackServerContext* context,
                                                          const v1::GetProfileRequest* request,
                                                          v1::GetProfileResponse* response) {
  return UnaryCall::Run(
      environment_, Method::kGetProfile, *context, *request,
      [this, request, response](const std::shared_ptr<Interrupter>&) {
        const std::shared_ptr<const ProfileCatalog> catalog = profiles_.catalog();
        const ProfileEntryPtr entry = catalog->Find(request->accelerator());
        if (entry == nullptr) {
          return ProfileNotFoundError(
              {{request->accelerator(), catalog->Nearest(request->accelerator())}});
        }
        *response->mutable_profile() = entry->wire;
        response->set_version(entry->version);
        response->set_origin(entry->origin);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ProfilesServiceImpl::ListProfiles(grpc::CallbackServerContext* context,
                                                            const v1::ListProfilesRequest* request,
                                                            v1::ListProfilesResponse* response) {
  return UnaryCall::Run(environment_, Method::kListProfiles, *context, *request,
                        [this, request, response](const std::shared_ptr<Interrupter>&) {
                          return List(*profiles_.catalog(), *request, *response);
                        });
}

grpc::ServerUnaryReactor* ProfilesServiceImpl::DeleteProfile(
    grpc::CallbackServerContext* context, const v1::DeleteProfileRequest* request,
    v1::DeleteProfileResponse*) {
  return UnaryCall::Queue(environment_, environment_.storage_pool, Method::kDeleteProfile, *context,
                          *request, [this, request](const std::shared_ptr<Interrupter>&) {
                            return profiles_.Delete(request->accelerator());
                          });
}

}  // namespace hapmoe::server
