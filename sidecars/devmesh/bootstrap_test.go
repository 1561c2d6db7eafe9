package devmesh_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/golden"
	"switchyard.dev/tools/envoy"
)

var customer = table.Workload{Kind: "Deployment", Namespace: "hotrod", Name: "customer"}

func TestARealEnvoyAcceptsTheBootstrap(t *testing.T) {
	path, err := envoy.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]devmesh.Config{
		"with defaults":            {Workload: customer},
		"with IPv6":                {Workload: customer, ListenIPv6: true},
		"with no plain ports":      {Workload: customer, PlainPorts: []uint16{}},
		"at an edge":               {Workload: customer, Edge: true},
		"with one plain port":      {Workload: customer, PlainPorts: []uint16{3306}},
		"with a name to be quoted": {Workload: table.Workload{Kind: "Deployment", Namespace: "a", Name: `"%b%`}},
	}
	for name, config := range cases {
		t.Run(name, func(t *testing.T) {
			bootstrap, err := devmesh.Bootstrap(config)
			if err != nil {
				t.Fatal(err)
			}
			written, err := protojson.Marshal(bootstrap)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "bootstrap.json")
			if err := os.WriteFile(file, written, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), path, "--mode", "validate", "-c", file, "-l", "warning").CombinedOutput()
			// Envoy takes methods of any name by a setting that it calls unfinished.
			warnings := slices.DeleteFunc(strings.Split(string(out), "\n"), func(line string) bool {
				return !strings.Contains(line, "[warning]") || strings.Contains(line, "Http1ProtocolOptions.allow_custom_methods")
			})
			if err != nil || len(warnings) > 0 {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// Limits and hands-off settings are easily lost; the golden file shows each.
func TestTheBootstrapIsTheOneThatWasReviewed(t *testing.T) {
	bootstrap, err := devmesh.Bootstrap(devmesh.Config{Workload: customer, ListenIPv6: true})
	if err != nil {
		t.Fatal(err)
	}
	compareWithGolden(t, "testdata/bootstrap.golden", bootstrap)
}

// An edge reads no key and has a filter more; the rest is as anywhere.
func TestTheFiltersOfAnEdgeAreThoseThatWereReviewed(t *testing.T) {
	bootstrap, err := devmesh.Bootstrap(devmesh.Config{Workload: customer, Edge: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, listener := range bootstrap.StaticResources.Listeners {
		http := &hcmv3.HttpConnectionManager{}
		if err := listener.FilterChains[0].Filters[0].GetTypedConfig().UnmarshalTo(http); err != nil {
			t.Fatal(err)
		}
		compareWithGolden(t, "testdata/edge.golden", &hcmv3.HttpConnectionManager{
			HttpFilters: http.HttpFilters, EarlyHeaderMutationExtensions: http.EarlyHeaderMutationExtensions,
		})
	}
}

func compareWithGolden(t *testing.T, file string, what proto.Message) {
	t.Helper()
	loose, err := protojson.Marshal(what)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := json.Indent(&text, loose, "", "  "); err != nil {
		t.Fatal(err)
	}
	text.WriteByte('\n')
	golden.Compare(t, file, text.String())
}

func TestConfigurationThatCannotWorkIsRefusedWithTheReason(t *testing.T) {
	cases := map[string]struct {
		config devmesh.Config
		want   string
	}{
		"no workload":                 {devmesh.Config{}, "WORKLOAD_KIND"},
		"a port that is none":         {devmesh.Config{Workload: customer, PlainPorts: []uint16{0}}, "port 0"},
		"a folder too long":           {devmesh.Config{Workload: customer, RunPath: "/" + strings.Repeat("x", 100)}, "too long"},
		"a workload that is not text": {devmesh.Config{Workload: table.Workload{Kind: "\xff", Namespace: "a", Name: "b"}}, "not text"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := devmesh.Bootstrap(c.config); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
