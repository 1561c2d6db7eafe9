package rest

import (
	"encoding/json"

	"switchyard.dev/protos"
)

// operations are those of the definition.
var operations = []operation{
	{"GET", "/meta/openapi.json", "getOpenAPI", open, (*Handler).getOpenAPI},
	{"GET", "/orgs/", "getOrgs", anyone, (*Handler).getOrgs},
	{"POST", "/auth/device/code/", "startDeviceLogin", open, login((*Handler).startDeviceLogin)},
	{"POST", "/auth/device/token/", "pollDeviceLogin", open, login(with((*Handler).pollDeviceLogin))},
	{"POST", "/auth/device/token/refresh", "refreshToken", open, login((*Handler).refreshToken)},

	{"GET", "/orgs/{orgName}/service-accounts/{serviceAccountName}/api-keys", "listServiceAccountKeys", admin, (*Handler).listKeys},
	{"POST", "/orgs/{orgName}/service-accounts/{serviceAccountName}/api-keys", "createServiceAccountKey", admin, (*Handler).createKey},
	{"DELETE", "/orgs/{orgName}/service-accounts/{serviceAccountName}/api-keys/{apiKeyId}", "deleteServiceAccountKey", admin, (*Handler).deleteKey},
	{"GET", "/orgs/{orgName}/users/{userId}/api-keys", "listUserKeys", member, (*Handler).listKeys},
	{"POST", "/orgs/{orgName}/users/{userId}/api-keys", "createUserKey", member, (*Handler).createKey},
	{"DELETE", "/orgs/{orgName}/users/{userId}/api-keys/{apiKeyId}", "deleteUserKey", member, (*Handler).deleteKey},
	{"GET", "/orgs/{orgName}/service-accounts", "listServiceAccounts", member, (*Handler).listServiceAccounts},
	{"POST", "/orgs/{orgName}/service-accounts", "createServiceAccount", admin, (*Handler).createServiceAccount},
	{"GET", "/orgs/{orgName}/service-accounts/{serviceAccountName}", "getServiceAccount", member, (*Handler).getServiceAccount},
	{"PUT", "/orgs/{orgName}/service-accounts/{serviceAccountName}", "updateServiceAccount", admin, (*Handler).updateServiceAccount},
	{"DELETE", "/orgs/{orgName}/service-accounts/{serviceAccountName}", "deleteServiceAccount", admin, (*Handler).deleteServiceAccount},

	{"GET", "/orgs/{orgName}/clusters/", "listClusters", member, (*Handler).listClusters},
	{"GET", "/orgs/{orgName}/clusters/{clusterName}/", "getCluster", member, (*Handler).getCluster},
	{"PUT", "/orgs/{orgName}/clusters/{clusterName}/", "addCluster", admin, (*Handler).addCluster},
	{"DELETE", "/orgs/{orgName}/clusters/{clusterName}/", "deleteCluster", admin, (*Handler).deleteCluster},
	{"GET", "/orgs/{orgName}/clusters/{clusterName}/devmesh/analyze", "analyzeDevMesh", member, (*Handler).analyzeDevMesh},
	{"GET", "/orgs/{orgName}/clusters/{clusterName}/tokens/", "listClusterTokens", admin, (*Handler).listClusterTokens},
	{"POST", "/orgs/{orgName}/clusters/{clusterName}/tokens", "createClusterToken", admin, (*Handler).createClusterToken},
	{"GET", "/orgs/{orgName}/clusters/{clusterName}/tokens/{tokenId}", "getClusterToken", admin, (*Handler).getClusterToken},
	{"DELETE", "/orgs/{orgName}/clusters/{clusterName}/tokens/{tokenId}", "deleteClusterToken", admin, (*Handler).deleteClusterToken},

	{"GET", "/orgs/{orgName}/sandboxes", "listSandboxes", member, (*Handler).listSandboxes},
	{"GET", "/orgs/{orgName}/sandboxes/{sandboxName}", "getSandbox", member, (*Handler).getSandbox},
	{"PUT", "/orgs/{orgName}/sandboxes/{sandboxName}", "applySandbox", member, with((*Handler).applySandbox)},
	{"DELETE", "/orgs/{orgName}/sandboxes/{sandboxName}", "deleteSandbox", member, (*Handler).deleteSandbox},
	{"GET", "/orgs/{orgName}/sandboxes/{sandboxName}/status/explain", "explainSandboxStatus", member, (*Handler).explainSandboxStatus},

	{"GET", "/orgs/{orgName}/routegroups", "listRouteGroups", member, (*Handler).listRouteGroups},
	{"GET", "/orgs/{orgName}/routegroups/{routegroupName}", "getRouteGroup", member, (*Handler).getRouteGroup},
	{"PUT", "/orgs/{orgName}/routegroups/{routegroupName}", "applyRouteGroup", member, with((*Handler).applyRouteGroup)},
	{"DELETE", "/orgs/{orgName}/routegroups/{routegroupName}", "deleteRouteGroup", member, (*Handler).deleteRouteGroup},

	{"GET", "/orgs/{orgName}/resource-plugins", "listResourcePlugins", member, (*Handler).listResourcePlugins},
	{"GET", "/orgs/{orgName}/resource-plugins/{pluginName}", "getResourcePlugin", member, (*Handler).getResourcePlugin},
	{"PUT", "/orgs/{orgName}/resource-plugins/{pluginName}", "applyResourcePlugin", member, with((*Handler).applyResourcePlugin)},
	{"DELETE", "/orgs/{orgName}/resource-plugins/{pluginName}", "deleteResourcePlugin", member, (*Handler).deleteResourcePlugin},
	{"GET", "/orgs/{orgName}/resource-plugins/{pluginName}/versions", "listResourcePluginVersions", member, (*Handler).listResourcePluginVersions},

	{"GET", "/orgs/{orgName}/devboxes/", "listDevboxes", member, (*Handler).listDevboxes},
	{"POST", "/orgs/{orgName}/devboxes/", "registerDevbox", member, with((*Handler).registerDevbox)},
	{"GET", "/orgs/{orgName}/devboxes/{devboxId}", "getDevbox", member, (*Handler).getDevbox},
	{"DELETE", "/orgs/{orgName}/devboxes/{devboxId}", "deleteDevbox", member, (*Handler).deleteDevbox},
	{"GET", "/orgs/{orgName}/devboxes/{devboxId}/claim", "claimDevbox", member, (*Handler).claimDevbox},
	{"GET", "/orgs/{orgName}/devboxes/{devboxId}/release", "releaseDevbox", member, (*Handler).releaseDevbox},
	{"GET", "/orgs/{orgName}/devboxes/{devboxId}/renew/{devboxSessionId}", "renewDevbox", member, (*Handler).renewDevbox},

	{"GET", "/orgs/{orgName}/events", "listEvents", admin, (*Handler).listEvents},

	{"GET", "/orgs/{orgName}/secrets", "listSecrets", member, (*Handler).listSecrets},
	{"POST", "/orgs/{orgName}/secrets", "createSecret", member, with((*Handler).createSecret)},
	{"GET", "/orgs/{orgName}/secrets/{secretName}", "getSecret", member, (*Handler).getSecret},
	{"PUT", "/orgs/{orgName}/secrets/{secretName}", "updateSecret", member, with((*Handler).updateSecret)},
	{"DELETE", "/orgs/{orgName}/secrets/{secretName}", "deleteSecret", member, (*Handler).deleteSecret},
}

func (h *Handler) getOpenAPI(*request) (any, error) {
	return json.RawMessage(protos.ControlPlaneOpenAPI), nil
}
