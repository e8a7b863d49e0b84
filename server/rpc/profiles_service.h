// ProfilesService over gRPC: passes calls on and answers back.
#ifndef HAPMOE_SERVER_RPC_PROFILES_SERVICE_H_
#define HAPMOE_SERVER_RPC_PROFILES_SERVICE_H_

#include "hapmoe/v1/profiles.grpc.pb.h"
#include "server/profile_store/profile_store.h"
#include "server/rpc/call_support.h"

namespace hapmoe::server {

// Thread safe. No method blocks: writes go to a pool.
class ProfilesServiceImpl : public v1::ProfilesService::CallbackService {
 public:
  // Both must outlive the service.
  ProfilesServiceImpl(CallEnvironment& environment, ProfileStore& profiles)
      : environment_(environment), profiles_(profiles) {}

  grpc::ServerUnaryReactor* PutProfile(grpc::CallbackServerContext* context,
                                       const v1::PutProfileRequest* request,
                                       v1::PutProfileResponse* response) override;
  grpc::ServerUnaryReactor* GetProfile(grpc::CallbackServerContext* context,
                                       const v1::GetProfileRequest* request,
                                       v1::GetProfileResponse* response) override;
  grpc::ServerUnaryReactor* ListProfiles(grpc::CallbackServerContext* context,
                                         const v1::ListProfilesRequest* request,
                                         v1::ListProfilesResponse* response) override;
  grpc::ServerUnaryReactor* DeleteProfile(grpc::CallbackServerContext* context,
                                          const v1::DeleteProfileRequest* request,
                                          v1::DeleteProfileResponse* response) override;

 private:
  CallEnvironment& environment_;
  ProfileStore& profiles_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_RPC_PROFILES_SERVICE_H_
