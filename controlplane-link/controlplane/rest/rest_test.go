package rest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/failure"
	"switchyard.dev/controlplane-link/controlplane/rest/work"
	"switchyard.dev/protos"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/workflows/spec"
)

// The operations are exactly those of the definition, and those that need no credential, too.
func TestOperationsAreThoseOfTheDefinition(t *testing.T) {
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(protos.ControlPlaneOpenAPI, &document); err != nil {
		t.Fatal(err)
	}
	var defined, served []string
	for path, methods := range document.Paths {
		for method, text := range methods {
			var op struct {
				OperationID string
				Security    *[]any
			}
			if method != "parameters" {
				if err := json.Unmarshal(text, &op); err != nil {
					t.Fatal(err)
				}
				defined = append(defined, fmt.Sprint(strings.ToUpper(method), path, op.OperationID, op.Security != nil))
			}
		}
	}
	for _, op := range operations {
		served = append(served, fmt.Sprint(op.method, op.path, op.name, op.access == open))
	}
	slices.Sort(defined)
	slices.Sort(served)
	if diff := cmp.Diff(defined, served); diff != "" {
		t.Errorf("(-defined +served):\n%s", diff)
	}
}

// A specification has the same fields for the compiler and in the definition, so that nothing is lost
// between them.
func TestSpecificationsHaveTheFieldsOfTheDefinition(t *testing.T) {
	for _, pair := range [][2]reflect.Type{
		{reflect.TypeFor[spec.SandboxSpec](), reflect.TypeFor[v2.SandboxSpec]()},
		{reflect.TypeFor[spec.GroupSpec](), reflect.TypeFor[v2.RouteGroupSpec]()},
		{reflect.TypeFor[spec.PluginSpec](), reflect.TypeFor[v2.ResourcepluginSpec]()},
	} {
		compiled, defined := map[string]string{}, map[string]string{}
		leaves(pair[0], "", compiled)
		leaves(pair[1], "", defined)
		if diff := cmp.Diff(compiled, defined); diff != "" {
			t.Errorf("%s (-compiled +defined):\n%s", pair[0], diff)
		}
	}
}

// leaves adds the paths of a type's fields in JSON, with their kinds.
func leaves(t reflect.Type, path string, into map[string]string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		for i, name := range fieldsOf(t) {
			if strings.Count(path, "."+name+".") < 2 { // match contains matches
				leaves(t.Field(i).Type, path+"."+name+".", into)
			}
		}
	case reflect.Slice:
		leaves(t.Elem(), path+"[]", into)
	case reflect.Map:
		leaves(t.Elem(), path+"{}", into)
	default:
		into[path] = t.Kind().String()
	}
}

func TestPathsMatchExactly(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v2/orgs/":                                            "getOrgs",
		"/api/v2/orgs":                                             "404",
		"/orgs/":                                                   "404",
		"/api/v2orgs/":                                             "404",
		"/api/v2":                                                  "404",
		"/api/v2/orgs/acme/clusters/":                              "listClusters orgName=acme",
		"/api/v2/orgs/acme/clusters":                               "404",
		"/api/v2/orgs/acme/clusters/a%20b%2Fc/":                    "getCluster clusterName=a b/c orgName=acme",
		"/api/v2/orgs/acme/clusters/a/":                            "getCluster clusterName=a orgName=acme",
		"/api/v2/orgs/acme/clusters/a":                             "404",
		"/api/v2/orgs/acme/clusters/a/tokens/":                     "listClusterTokens clusterName=a orgName=acme",
		"/api/v2/orgs/acme/clusters/a/tokens":                      "405",
		"/api/v2/orgs/acme/clusters/a/tokens/t":                    "getClusterToken clusterName=a orgName=acme tokenId=t",
		"/api/v2/orgs/acme/sandboxes":                              "listSandboxes orgName=acme",
		"/api/v2/orgs/acme/sandboxes/":                             "404",
		"/api/v2/orgs//sandboxes":                                  "404",
		"/api/v2/orgs/acme/sandboxes/%00":                          "400",
		"/api/v2/orgs/acme/sandboxes/%ff":                          "400",
		"/api/v2/orgs/acme/jobs":                                   "listJobs orgName=acme",
		"/api/v2/orgs/acme/plans/executions/x/outputs/y":           "501",
		"/api/v2/meta/plans":                                       "501",
		"/api/v2/meta/openapi.json":                                "getOpenAPI",
		"/api/v2/orgs/acme/resource-plugins/p@1/versions":          "listResourcePluginVersions orgName=acme pluginName=p@1",
		"/api/v2/orgs/acme/devboxes/d/renew/s":                     "renewDevbox devboxId=d devboxSessionId=s orgName=acme",
		"/api/v2/orgs/acme/sandboxes/s/../../../other/sandboxes/s": "404",
		"/api/v2/orgs/acme/sandboxes/s%2F..%2F..%2Fother":          "getSandbox orgName=acme sandboxName=s/../../other",
	} {
		r := &request{Call: work.Call{Request: httptest.NewRequest("GET", path, nil)}}
		op, err := route(httptest.NewRecorder(), r)
		var got string
		if err != nil {
			status, _ := failure.Status(err)
			got = fmt.Sprint(status)
		} else {
			got = op.name
			for _, name := range slices.Sorted(maps.Keys(r.Vars)) {
				got += " " + name + "=" + r.Vars[name]
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestOperationsHaveTheirPrefix(t *testing.T) {
	for path, want := range map[string]string{"/api/v2/orgs/": "getOrgs", "/api/v2orgs/": "", "/orgs/": ""} {
		if got, known := Operation("GET", path); got != want || known != (want != "") {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestRoutingKeysHave13LettersAndDigits(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		key := newKey()
		if len(key) != 13 || strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789") != "" || seen[key] {
			t.Fatalf("the key is %q", key)
		}
		seen[key] = true
	}
}

func TestATakenRoutingKeyIsReplaced(t *testing.T) {
	var keys []string
	_, err := withKey(func(key string) (int, error) {
		keys = append(keys, key)
		if len(keys) < 3 {
			return 0, fmt.Errorf("sandbox: %w", model.ErrKeyTaken)
		}
		return 1, nil
	})
	slices.Sort(keys)
	if err != nil || len(slices.Compact(keys)) != 3 {
		t.Errorf("%v, %v", keys, err)
	}
}

// fieldsOf returns the names of a struct's fields in JSON.
func fieldsOf(t reflect.Type) (out []string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}
