package keeper

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/testing/protocmp"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/xds/translate"
	"switchyard.dev/xds/xdstest"
)

var workload = table.Workload{Kind: "Deployment", Namespace: "hotrod", Name: "customer"}

func environment(changes map[string]string) func(string) string {
	all := map[string]string{
		devmesh.EnvWorkloadKind: workload.Kind, devmesh.EnvWorkloadNamespace: workload.Namespace, devmesh.EnvWorkloadName: workload.Name,
	}
	for name, value := range changes {
		all[name] = value
	}
	return func(name string) string { return all[name] }
}

func TestTheEnvironmentOfTheContainer(t *testing.T) {
	c, err := FromEnvironment(environment(map[string]string{
		devmesh.EnvLogLevel:   "debug",
		devmesh.EnvPlainPorts: "3306, 5432,3306", devmesh.EnvPodIP: "10.244.1.2",
		devmesh.EnvPodNamespace: "hotrod", devmesh.EnvPodName: "customer-1", devmesh.EnvPodUID: "u",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]uint16{3306, 5432}, c.Proxy.PlainPorts); diff != "" {
		t.Error(diff)
	}
	if c.PodIP != netip.MustParseAddr("10.244.1.2") {
		t.Errorf("the pod's address is %v", c.PodIP)
	}
	if c.Level != slog.LevelDebug || c.Proxy.NodeID != "hotrod/customer-1/u" || c.Proxy.Workload != workload {
		t.Errorf("%+v", c)
	}
	for variable, value := range map[string]string{
		devmesh.EnvWorkloadName: "", devmesh.EnvLogLevel: "loud", devmesh.EnvXDSAddress: "routeserver",
		devmesh.EnvPlainPorts: "80,http", devmesh.EnvPodIP: "localhost",
	} {
		if _, err := FromEnvironment(environment(map[string]string{variable: value})); err == nil || !strings.Contains(err.Error(), variable) {
			t.Errorf("%s=%q: got %v, want an error that names the variable", variable, value, err)
		}
	}
}

func TestPlainPortsCanBeLeftToTheDefaultOrBeNone(t *testing.T) {
	for text, want := range map[string][]uint16{"": devmesh.DefaultPlainPorts(), " none ": {}, ",7000": {7000}} {
		c, err := FromEnvironment(environment(map[string]string{devmesh.EnvPlainPorts: text}))
		if diff := cmp.Diff(want, c.Proxy.WithDefaults().PlainPorts); err != nil || diff != "" {
			t.Errorf("%q: %v %s", text, err, diff)
		}
	}
	for _, text := range []string{"0", "65536", "none,80", "-1", "80 81"} {
		if _, err := FromEnvironment(environment(map[string]string{devmesh.EnvPlainPorts: text})); err == nil {
			t.Errorf("%q was taken for ports", text)
		}
	}
}

func TestRoutesOnDiskAreWholeOrNone(t *testing.T) {
	s := store{path: filepath.Join(t.TempDir(), "routes.pb")}
	name := translate.RouteName(workload)
	if _, err := s.load(name); err == nil {
		t.Error("routes were read from nowhere")
	}
	routes, err := translate.Baseline(workload)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.save(routes[0]); err != nil {
		t.Fatal(err)
	}
	got, err := s.load(name)
	if err != nil || len(got) != 1 || got[0].Version != routes[0].Version || string(got[0].Any.Value) != string(routes[0].Any.Value) {
		t.Fatalf("got %v, %v", got, err)
	}
	if _, err := s.load("routes/Deployment/hotrod/driver"); err == nil {
		t.Error("another workload's routes were taken")
	}
	whole, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		for _, damaged := range [][]byte{whole[:i], flipped(whole, i)} {
			if err := os.WriteFile(s.path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := s.load(name); err == nil {
				t.Fatalf("damaged at byte %d, read as %v", i, got)
			}
		}
	}
}

// An image of an earlier release, which reads destinations from headers alone, can start with the
// routes on disk.
func TestRoutesOnDiskHaveDestinationsWhereEachReleaseReadsThem(t *testing.T) {
	board := xdstest.NewBoard(t)
	board.Declare(xdstest.Fork{
		Baseline: workload, Key: "k1", Sandbox: "sb", Port: 8080, Destination: netip.MustParseAddrPort("10.96.8.1:80"),
	})
	board.Complete()
	newest, _ := board.View.Current()
	routes, err := translate.Translate(newest, workload)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := routes.Whole()
	if err != nil {
		t.Fatal(err)
	}
	s := store{path: filepath.Join(t.TempDir(), "routes.pb")}
	if err := s.save(whole); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	added := protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), "10.96.8.1:80")
	if !bytes.Contains(content, append([]byte(translate.DestinationHeader), added...)) {
		t.Errorf("no route adds %s: 10.96.8.1:80 in %q", translate.DestinationHeader, content)
	}
	got, err := s.load(whole.Name)
	if err != nil {
		t.Fatal(err)
	}
	saved, loaded := &routev3.RouteConfiguration{}, &routev3.RouteConfiguration{}
	if err := errors.Join(whole.Any.UnmarshalTo(saved), got[0].Any.UnmarshalTo(loaded)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(saved, loaded, protocmp.Transform()); diff != "" {
		t.Errorf("(-saved +loaded):\n%s", diff)
	}
}

func flipped(b []byte, i int) []byte {
	b = append([]byte(nil), b...)
	b[i] ^= 0x10
	return b
}
