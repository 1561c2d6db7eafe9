package rest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"switchyard.dev/controlplane-link/controlplane/rest/decode"
	"switchyard.dev/controlplane-link/controlplane/rest/failure"
	"switchyard.dev/controlplane-link/controlplane/rest/work"
	"switchyard.dev/protos"
)

// prefix is that of all paths.
const prefix = "/api/v2"

// access is what an operation requires of its caller.
type access int

const (
	// open needs no credential.
	open access = iota
	// anyone has a credential.
	anyone
	// member is a user or a service account of the organisation in the path.
	member
	// admin is one with that role.
	admin
)

// operation is an operation of the API.
type operation struct {
	method, path string
	// name is its operationId in the definition.
	name   string
	access access
	serve  func(*Handler, *request) (any, error)
}

// unserved are published operations that are not served, by their segment after the organisation.
var unserved = []string{"plan-actions", "plan-runnergroup-settings", "plan-runnergroups", "plan-tags", "plans"}

// below returns a path without the prefix, beginning with a slash; false if it has another one.
func below(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, prefix)
	return rest, ok && strings.HasPrefix(rest, "/")
}

// route returns the operation of a request, and sets the variables of its path. The error is a
// failure: 404, 405, or 501 for published operations that are not served.
func route(w http.ResponseWriter, r *request) (*operation, error) {
	path, ok := below(r.URL.EscapedPath())
	if !ok {
		return nil, failure.New(http.StatusNotFound, "no such path; the API is below %s", prefix)
	}
	parts, err := decode.Segments(path)
	if err != nil {
		return nil, err
	}
	var allowed []string
	for i := range operations {
		op := &operations[i]
		vars, ok := decode.Match(op.path, parts)
		if ok && op.method == r.Method {
			r.Vars = vars
			return op, nil
		} else if ok {
			allowed = append(allowed, op.method)
		}
	}
	switch {
	case len(allowed) > 0:
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		return nil, failure.New(http.StatusMethodNotAllowed, "method %s is not allowed; use %s", r.Method, strings.Join(allowed, " or "))
	case len(parts) == 9 && parts[2] == "artifacts" && parts[8] == "upload":
		return nil, failure.New(http.StatusNotImplemented, "artifacts cannot be uploaded: name their paths in spec.uploadArtifact of the job")
	case len(parts) > 2 && parts[0] == "orgs" && slices.Contains(unserved, parts[2]), slices.Equal(parts, []string{"meta", "plans"}):
		return nil, failure.New(http.StatusNotImplemented, "%s are not served by this control plane", parts[min(len(parts)-1, 2)])
	}
	for _, other := range []string{strings.TrimSuffix(path, "/"), path + "/"} {
		if _, is := Operation(r.Method, prefix+other); is {
			return nil, failure.New(http.StatusNotFound, "no such path; use %s%s", prefix, other)
		}
	}
	return nil, failure.New(http.StatusNotFound, "no such path")
}

// Operation returns the operationId of a request, by its method and its escaped path; false if there is
// no such operation.
func Operation(method, path string) (string, bool) {
	rest, is := below(path)
	parts, err := decode.Segments(rest)
	for _, op := range operations {
		if _, ok := decode.Match(op.path, parts); ok && is && err == nil && op.method == method {
			return op.name, true
		}
	}
	return "", false
}

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

	{"GET", "/orgs/{orgName}/runnergroups", "listRunnerGroups", member, forWork(work.Work.ListGroups)},
	{"GET", "/orgs/{orgName}/runnergroups/{runnergroupName}", "getRunnerGroup", member, forWork(work.Work.GetGroup)},
	{"PUT", "/orgs/{orgName}/runnergroups/{runnergroupName}", "applyRunnerGroup", admin, workOn(work.Work.ApplyGroup)},
	{"DELETE", "/orgs/{orgName}/runnergroups/{runnergroupName}", "deleteRunnerGroup", admin, forWork(work.Work.RemoveGroup)},

	{"GET", "/orgs/{orgName}/jobs", "listJobs", member, forWork(work.Work.ListJobs)},
	{"POST", "/orgs/{orgName}/jobs", "submitJob", member, workOn(work.Work.SubmitJob)},
	{"GET", "/orgs/{orgName}/jobs/{jobName}", "getJob", member, forWork(work.Work.GetJob)},
	{"DELETE", "/orgs/{orgName}/jobs/{jobName}", "deleteJob", member, forWork(work.Work.RemoveJob)},
	{"PUT", "/orgs/{orgName}/jobs/{jobName}/cancel", "cancelJob", member, forWork(work.Work.CancelJob)},
	{"GET", "/orgs/{orgName}/jobs/{jobName}/attempts/{jobAttempt}/logs/stream", "streamJobLogs", member, forWork(work.Work.StreamLogs)},
	{"GET", "/orgs/{orgName}/artifacts/jobs/{jobName}/attempts/{jobAttempt}", "listJobArtifacts", member, forWork(work.Work.ListArtifacts)},
	{"GET", "/orgs/{orgName}/artifacts/jobs/{jobName}/attempts/{jobAttempt}/objects/", "getJobArtifact", member, forWork(work.Work.GetArtifact)},
	{"GET", "/orgs/{orgName}/artifacts/jobs/{jobName}/attempts/{jobAttempt}/objects/download", "downloadJobArtifact", member, forWork(work.Work.DownloadArtifact)},

	{"GET", "/orgs/{orgName}/captures", "listCaptures", member, forWork(work.Work.ListCaptures)},
	{"POST", "/orgs/{orgName}/captures", "createCapture", member, workOn(work.Work.CreateCapture)},
	{"GET", "/orgs/{orgName}/captures/{captureName}", "getCapture", member, forWork(work.Work.GetCapture)},
	{"DELETE", "/orgs/{orgName}/captures/{captureName}", "deleteCapture", member, forWork(work.Work.RemoveCapture)},
	{"PUT", "/orgs/{orgName}/captures/{captureName}/end", "endCapture", member, forWork(work.Work.EndCapture)},
	{"GET", "/orgs/{orgName}/captures/{captureName}/requests", "listCapturedRequests", member, forWork(work.Work.ListCapturedRequests)},
	{"GET", "/orgs/{orgName}/captures/{captureName}/har", "downloadCaptureHAR", member, forWork(work.Work.DownloadHAR)},

	{"GET", "/orgs/{orgName}/tests/executions/", "queryTestExecutions", member, forWork(work.Work.QueryExecutions)},
	{"POST", "/orgs/{orgName}/tests/executions/", "runTest", member, workOn(work.Work.RunTest)},
	{"GET", "/orgs/{orgName}/tests/executions/{executionID}", "getTestExecution", member, forWork(work.Work.GetExecution)},
	{"PUT", "/orgs/{orgName}/tests/executions/{executionID}/cancel", "cancelTestExecution", member, forWork(work.Work.CancelExecution)},
	{"GET", "/orgs/{orgName}/tests/executions/{executionID}/traffic-diff", "getTrafficDiff", member, forWork(work.Work.GetDiff)},
	{"GET", "/orgs/{orgName}/tests/executions/{executionID}/traffic-diff-findings", "getTrafficDiffFindings", member, forWork(work.Work.GetFindings)},
	{"GET", "/orgs/{orgName}/tests", "listTests", member, forWork(work.Work.ListTests)},
	{"GET", "/orgs/{orgName}/tests/{testName}", "getTest", member, forWork(work.Work.GetTest)},
	{"PUT", "/orgs/{orgName}/tests/{testName}", "applyTest", member, workOn(work.Work.ApplyTest)},
	{"DELETE", "/orgs/{orgName}/tests/{testName}", "deleteTest", member, forWork(work.Work.RemoveTest)},
	{"GET", "/orgs/{orgName}/tests/{testName}/executions/", "listTestExecutions", member, forWork(work.Work.ListExecutions)},
	{"POST", "/orgs/{orgName}/tests/{testName}/executions/", "runHostedTest", member, workOn(work.Work.RunHosted)},

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
