package outages

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if err := Isolate(); err != nil {
		fmt.Fprintln(os.Stderr, "outages:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestTheLinkRecovers is the short form of make faults-link. It counts, and measures no time.
func TestTheLinkRecovers(t *testing.T) {
	const agents, requests = 50, 100
	f, err := Run{Lengths: []Length{{time.Second, 2}}, Agents: agents, Lost: time.Second, Revoked: 1, Requests: requests, Scratch: t.TempDir()}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds {
		if n := f.Of(k.name); n != 2 {
			t.Errorf("%s: requests are answered after %d of 2", k.name, n)
		}
	}
	if f.proxy.Connects != 1 {
		t.Errorf("the agent connected %d times through the proxy", f.proxy.Connects)
	}
	if f.herd.Agents != agents || len(f.herd.Revoked) != 1 {
		t.Errorf("of the herd: %+v", f.herd)
	}
	if f.replicas.Requests != requests || f.replicas.Failed != 0 {
		t.Errorf("%d of %d requests through replicas failed", f.replicas.Failed, f.replicas.Requests)
	}
}
