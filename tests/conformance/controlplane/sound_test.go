package controlplane

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/rest"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/workflows/spec"
)

// answers are the types of successful answers, by the operation.
var answers = map[string]reflect.Type{
	"getOrgs": typeOf[v2.OrgsGetOrgNameResponse](), "startDeviceLogin": typeOf[v2.AuthdevicesCode](), "pollDeviceLogin": typeOf[v2.AuthdevicesToken](), "refreshToken": typeOf[v2.AuthdevicesToken](),
	"listServiceAccountKeys": typeOf[v2.ListAPIKeysResponse](), "createServiceAccountKey": typeOf[v2.APIKey](), "deleteServiceAccountKey": typeOf[v2.EmptyResponse](),
	"listUserKeys": typeOf[v2.ListAPIKeysResponse](), "createUserKey": typeOf[v2.APIKey](), "deleteUserKey": typeOf[v2.EmptyResponse](),
	"listServiceAccounts": typeOf[[]v2.ServiceAccount](), "createServiceAccount": typeOf[v2.ServiceAccount](), "getServiceAccount": typeOf[v2.ServiceAccount](),
	"updateServiceAccount": typeOf[v2.ServiceAccount](), "deleteServiceAccount": typeOf[v2.EmptyResponse](),
	"listClusters": typeOf[[]v2.Cluster](), "getCluster": typeOf[v2.Cluster](), "addCluster": typeOf[v2.Cluster](), "deleteCluster": typeOf[v2.EmptyResponse](),
	"analyzeDevMesh": typeOf[[]v2.ClustersDevMeshEnabledWorkload](), "listClusterTokens": typeOf[[]v2.ClusterToken](), "createClusterToken": typeOf[v2.ClusterToken](), "getClusterToken": typeOf[v2.ClusterToken](), "deleteClusterToken": typeOf[v2.EmptyResponse](),
	"listSandboxes": typeOf[[]v2.Sandbox](), "getSandbox": typeOf[v2.Sandbox](), "applySandbox": typeOf[v2.Sandbox](), "deleteSandbox": typeOf[v2.EmptyResponse](),
	"explainSandboxStatus": typeOf[v2.SandboxesSandboxStatusExplainResponse](), "listRouteGroups": typeOf[[]v2.RouteGroup](), "getRouteGroup": typeOf[v2.RouteGroup](), "applyRouteGroup": typeOf[v2.RouteGroup](), "deleteRouteGroup": typeOf[v2.EmptyResponse](),
	"listResourcePlugins": typeOf[[]v2.ResourcePlugin](), "getResourcePlugin": typeOf[v2.ResourcePlugin](), "applyResourcePlugin": typeOf[v2.EmptyResponse](),
	"deleteResourcePlugin": typeOf[v2.EmptyResponse](), "listResourcePluginVersions": typeOf[[]v2.ResourcePlugin](),
	"listDevboxes": typeOf[[]v2.Devbox](), "registerDevbox": typeOf[v2.Devbox](), "getDevbox": typeOf[v2.Devbox](), "deleteDevbox": typeOf[v2.EmptyResponse](),
	"claimDevbox": typeOf[v2.Devbox](), "releaseDevbox": typeOf[v2.Devbox](), "renewDevbox": typeOf[v2.Devbox](),
	"listRunnerGroups": typeOf[[]v2.JobRunnerGroup](), "getRunnerGroup": typeOf[v2.JobRunnerGroup](), "applyRunnerGroup": typeOf[v2.JobRunnerGroup](), "deleteRunnerGroup": typeOf[v2.EmptyResponse](),
	"listJobs": typeOf[[]v2.Job](), "submitJob": typeOf[v2.Job](), "getJob": typeOf[v2.Job](), "cancelJob": typeOf[v2.Job](), "deleteJob": typeOf[v2.EmptyResponse](),
	"listTests": typeOf[[]v2.Test](), "getTest": typeOf[v2.Test](), "applyTest": typeOf[v2.Test](), "deleteTest": typeOf[v2.EmptyResponse](),
	"queryTestExecutions": typeOf[[]v2.TestexecutionsQueryResult](), "runTest": typeOf[v2.TestExecution](), "getTestExecution": typeOf[v2.TestExecution](),
	"cancelTestExecution": typeOf[v2.EmptyResponse](), "getTrafficDiff": typeOf[v2.TrafficDiffResult](), "getTrafficDiffFindings": typeOf[v2.TrafficDiffResult](),
	"listTestExecutions": typeOf[[]v2.TestExecution](), "runHostedTest": typeOf[v2.TestExecution](),
	"listCaptures": typeOf[[]v2.Capture](), "createCapture": typeOf[v2.Capture](), "getCapture": typeOf[v2.Capture](), "endCapture": typeOf[v2.Capture](), "deleteCapture": typeOf[v2.EmptyResponse](),
	"listCapturedRequests": typeOf[[]map[string]any](),
	"listJobArtifacts":     typeOf[[]v2.JobArtifact](), "getJobArtifact": typeOf[v2.JobArtifactInfo](),
	"listEvents": typeOf[v2.ListEventsResponse](), "listSecrets": typeOf[[]v2.Secret](), "createSecret": typeOf[v2.Secret](), "getSecret": typeOf[v2.Secret](),
	"updateSecret": typeOf[v2.Secret](), "deleteSecret": typeOf[v2.EmptyResponse](),
}

// bytesOf are operations with other answers than JSON.
var bytesOf = []string{"streamJobLogs", "downloadJobArtifact", "downloadCaptureHAR"}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// sound returns an error if a successful answer of an operation is one that a published client does not
// understand: not of the type in the definition, null or missing where that requires a value, a time
// that is none, a lifetime without its parts, or an object without a name.
func sound(operation string, body []byte) error {
	t, known := answers[operation]
	if !known {
		return fmt.Errorf("%s answers with success, and is not served", operation)
	}
	strict := json.NewDecoder(bytes.NewReader(body))
	strict.DisallowUnknownFields()
	if err := strict.Decode(reflect.New(t).Interface()); err != nil {
		return err
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return err
	}
	return whole("", t, value)
}

var duration = regexp.MustCompile(`^[0-9]+[mhdw]$`)

// whole returns an error if a value lacks what its type requires.
func whole(path string, t reflect.Type, value any) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if value == nil {
		return fmt.Errorf("%s is null", path)
	}
	switch v := value.(type) {
	case []any:
		for i, item := range v {
			if err := whole(fmt.Sprintf("%s[%d]", path, i), t.Elem(), item); err != nil {
				return err
			}
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return nil
		}
		var errs []error
		for f := range t.Fields() {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			field, has := v[name]
			switch {
			case has:
				errs = append(errs, whole(path+"."+name, f.Type, field))
			case options != "omitempty":
				errs = append(errs, fmt.Errorf("%s.%s is missing", path, name))
			}
		}
		return errors.Join(errs...)
	case string:
		return word(path, v)
	}
	return nil
}

// word returns an error for a text that clients cannot use where it is.
func word(path, text string) error {
	name := path[strings.LastIndex(path, ".")+1:]
	switch {
	case strings.HasSuffix(name, "At"), name == "timestamp", name == "scheduledDeleteTime", name == "validUntil":
		_, err := time.Parse(time.RFC3339, text)
		return err
	case name == "name" && strings.Count(path, ".") == 1 && text == "", name == "cluster" && text == "" && strings.Count(path, ".") == 2:
		return fmt.Errorf("%s is empty", path)
	case strings.HasSuffix(path, ".ttl.duration") && !duration.MatchString(text):
		return fmt.Errorf("%s is %q", path, text)
	case strings.HasSuffix(path, ".ttl.offsetFrom") && text != spec.FromCreated && text != spec.FromUpdated && text != spec.FromUnmatched:
		return fmt.Errorf("%s is %q", path, text)
	}
	return nil
}

// operationOf returns the operation of a request; empty if there is none.
func operationOf(method, path string) string {
	name, _ := rest.Operation(method, path)
	return name
}
