package routes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	factv1 "switchyard.dev/protos/gen/fact/v1"
	pb "switchyard.dev/protos/gen/routes"
	"switchyard.dev/tools/traffic"
)

// The published models: a pointer is a field that must be there.
type (
	answer struct {
		RoutingRules *[]rule `json:"routingRules"`
	}
	rule struct {
		RoutingKey *string `json:"routingKey"`
		Baseline   *struct {
			Kind      *string `json:"kind"`
			Namespace *string `json:"namespace"`
			Name      *string `json:"name"`
		} `json:"baseline"`
		DestinationSandbox *struct {
			Name *string `json:"name"`
		} `json:"destinationSandbox"`
		Mappings []struct {
			WorkloadPort *uint32 `json:"workloadPort"`
			Destinations []struct {
				Host *string `json:"host"`
				Port *uint32 `json:"port"`
			} `json:"destinations"`
		} `json:"mappings"`
	}
)

// decode reads an answer as strictly as the published models do.
func decode(body []byte) (map[identity]*pb.WorkloadRoutingRule, error) {
	var a answer
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return nil, err
	}
	if a.RoutingRules == nil {
		return nil, errors.New("routingRules is missing or null")
	}
	out := map[identity]*pb.WorkloadRoutingRule{}
	for i, r := range *a.RoutingRules {
		if r.RoutingKey == nil || r.Baseline == nil || r.Baseline.Kind == nil || r.Baseline.Namespace == nil || r.Baseline.Name == nil ||
			r.DestinationSandbox == nil || r.DestinationSandbox.Name == nil {
			return nil, fmt.Errorf("rule %d misses a field", i)
		}
		m := &pb.WorkloadRoutingRule{
			RoutingKey:         *r.RoutingKey,
			Baseline:           &pb.BaselineWorkload{Kind: *r.Baseline.Kind, Namespace: *r.Baseline.Namespace, Name: *r.Baseline.Name},
			DestinationSandbox: &pb.DestinationSandbox{Name: *r.DestinationSandbox.Name},
		}
		for _, mapping := range r.Mappings {
			if mapping.WorkloadPort == nil {
				return nil, fmt.Errorf("rule %d: a mapping misses its port", i)
			}
			to := &pb.WorkloadPortMapping{WorkloadPort: *mapping.WorkloadPort}
			for _, d := range mapping.Destinations {
				if d.Host == nil || d.Port == nil {
					return nil, fmt.Errorf("rule %d: a destination misses host or port", i)
				}
				to.Destinations = append(to.Destinations, &pb.Location{Host: *d.Host, Port: *d.Port})
			}
			m.Mappings = append(m.Mappings, to)
		}
		out[identityOf(m)] = m
	}
	return out, nil
}

// The same workload name in two namespaces and of two kinds, one key for
// several workloads, a workload without a Service and one with two.
func TestEveryCombinationOfFiltersAgreesBetweenRESTAndGRPCAndTheRules(t *testing.T) {
	t.Parallel()
	w := begin(t)
	for i, namespace := range []string{"shop", "other"} {
		w.State(
			observe(namespace, "w1", "Deployment", "customer", 8080), observe(namespace, "w2", "ArgoRollout", "customer", 8080, 9090),
			observe(namespace, "w3", "Deployment", "driver"),
			declare(fmt.Sprintf("k%d", i), member(namespace, "w1", "sb1"), member(namespace, "w2", "sb2"), member(namespace, "w3", "sb1")))
	}
	w.State(declare("group", member("shop", "w1", "sb1"), member("other", "w1", "sb2")), &factv1.Complete{})
	m, _ := serve(t, w.Log, anyPort)
	w.Settle(m)
	conn := dial(t, m.GRPCAddress())
	all := rulesOf(t, conn, nil)
	if len(all) != 8 {
		t.Fatalf("%d rules, want 8", len(all))
	}
	for _, f := range combinations() {
		want := map[identity]*pb.WorkloadRoutingRule{}
		for id, r := range all {
			if f.matches(r) {
				want[id] = r
			}
		}
		if diff := cmp.Diff(want, rulesOf(t, conn, f.request()), protocmp.Transform()); diff != "" {
			t.Errorf("gRPC with %v (-want +got):\n%s", f, diff)
		}
		for _, path := range []string{"/api/v1/workloads/routing-rules", "/api/v1/workloads/routes"} {
			if diff := cmp.Diff(want, overREST(t, m.RESTAddress(), path, f), protocmp.Transform()); diff != "" {
				t.Errorf("%s with %v (-want +got):\n%s", path, f, diff)
			}
		}
	}
}

// filters are kind, namespace, name, key and sandbox; empty ones do not narrow.
type filters [5]string

var parameters = [5]string{"baselineKind", "baselineNamespace", "baselineName", "routingKey", "destinationSandboxName"}

func combinations() []filters {
	out := []filters{{}}
	for i, values := range [5][]string{
		{"", "Deployment", "deployment"}, {"", "shop", "other"}, {"", "customer", "driver"}, {"", "k0", "group"}, {"", "sb1", "nobody"},
	} {
		var next []filters
		for _, f := range out {
			for _, v := range values {
				f[i] = v
				next = append(next, f)
			}
		}
		out = next
	}
	return out
}

func (f filters) request() *pb.WorkloadRoutingRulesRequest {
	r := baseline(f[0], f[1], f[2])
	r.RoutingKey, r.DestinationSandbox = f[3], &pb.DestinationSandbox{Name: f[4]}
	return r
}

func (f filters) matches(r *pb.WorkloadRoutingRule) bool {
	b := r.GetBaseline()
	for i, got := range [5]string{b.GetKind(), b.GetNamespace(), b.GetName(), r.GetRoutingKey(), r.GetDestinationSandbox().GetName()} {
		if f[i] != "" && f[i] != got {
			return false
		}
	}
	return true
}

// overREST asks with every parameter, empty ones too, and reads the answer
// strictly; the older path may have the rules under a second name.
func overREST(t *testing.T, address, path string, f filters) map[identity]*pb.WorkloadRoutingRule {
	t.Helper()
	query := url.Values{}
	for i, v := range f {
		query.Set(parameters[i], v)
	}
	status, body := get(t, "http://"+address+path+"?"+query.Encode())
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, status, body)
	}
	if path == "/api/v1/workloads/routes" {
		var both map[string]json.RawMessage
		if err := json.Unmarshal(body, &both); err != nil || !bytes.Equal(both["routes"], both["routingRules"]) {
			t.Fatalf("%s: %s", path, body)
		}
		delete(both, "routes")
		var err error
		if body, err = json.Marshal(both); err != nil {
			t.Fatal(err)
		}
	}
	got, err := decode(body)
	if err != nil {
		t.Fatalf("%s: %v in %s", path, err, body)
	}
	return got
}

func get(t *testing.T, url string) (int, []byte) {
	t.Helper()
	a, err := traffic.Get(t.Context(), &http.Client{Timeout: patience}, url)
	if err != nil {
		t.Fatal(err)
	}
	return a.Status, a.Body
}

// Pollers that ignore the status must fail to read the body and keep what they
// have: a JSON object would be read as "no rules".
func TestFailuresOverRESTCannotBeReadAsNoRules(t *testing.T) {
	t.Parallel()
	m, _ := serve(t, begin(t).Log, anyPort) // a log that never is complete
	for path, want := range map[string]int{
		"/api/v1/workloads/routing-rules":                           http.StatusServiceUnavailable,
		"/api/v1/workloads/routes":                                  http.StatusServiceUnavailable,
		"/api/v1/workloads/routing-rules?routingKey=%zz":            http.StatusBadRequest,
		"/api/v1/workloads/routing-rules?routingKey=a&routingKey=b": http.StatusBadRequest,
		"/api/v1/workloads/routing-rules/":                          http.StatusNotFound,
		"/apis/apps/v1/namespaces/shop/deployments/customer/routes": http.StatusNotFound,
	} {
		status, body := get(t, "http://"+m.RESTAddress()+path)
		var anything any
		if status != want || json.Unmarshal(body, &anything) == nil {
			t.Errorf("%s: %d %s, want %d and no JSON", path, status, body, want)
		}
	}
}

// A poller builds its query by hand: the published examples write
// "?baselineKind=…&routingKey=…" into a URL. A parameter with a typo in its name that is
// passed over answers with the rules of everybody, and a consumer that takes every key
// it is given (the published mq examples do, in a sandbox) takes messages of others.
// Clients of later editions send parameters that are not known here
// (enableVirtualWorkloads), and must be served.
func TestAMisspeltParameterIsRefusedAndALaterOneIsNot(t *testing.T) {
	t.Parallel()
	_, m := serving(t, observe("shop", "w1", "Deployment", "customer", 8080), declare("k1", member("shop", "w1", "sb1")), &factv1.Complete{})
	for _, path := range []string{"/api/v1/workloads/routing-rules", "/api/v1/workloads/routes"} {
		ask := func(name string) (int, []byte) {
			return get(t, "http://"+m.RESTAddress()+path+"?"+url.QueryEscape(name)+"=x")
		}
		for _, name := range parameters {
			for _, typo := range []string{strings.ToLower(name), name + "s", name[1:], name[:3] + "_" + name[4:], name[:4] + name[5:6] + name[4:5] + name[6:]} {
				status, body := ask(typo)
				var anything any
				if status != http.StatusBadRequest || !strings.Contains(string(body), "did you mean "+name+"?") || json.Unmarshal(body, &anything) == nil {
					t.Errorf("%s?%s: %d %s, want 400 with %s, and no JSON", path, typo, status, body, name)
				}
			}
		}
		for _, name := range []string{"enableVirtualWorkloads", "baseline", "sandbox", "namespace", "key", "limit", "v", "routingKeyPrefix"} {
			if status, body := ask(name); status != http.StatusOK {
				t.Errorf("%s?%s: %d %s, want 200", path, name, status, body)
			}
		}
	}
}

func TestRulesOverRESTFollowTheLog(t *testing.T) {
	t.Parallel()
	w, m := serving(t, observe("shop", "w1", "Deployment", "customer", 8080), &factv1.Complete{})
	const path = "/api/v1/workloads/routing-rules"
	if got := overREST(t, m.RESTAddress(), path, filters{}); len(got) != 0 {
		t.Errorf("%d rules, want none", len(got))
	}
	w.State(declare("k1", member("shop", "w1", "sb1")))
	eventually(t, "the rule comes", func() bool { return len(overREST(t, m.RESTAddress(), path, filters{})) == 1 })
}
