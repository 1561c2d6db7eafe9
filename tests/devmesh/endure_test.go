package devmesh

import (
	"testing"
	"time"
)

func TestRouteChangesUnderLoadLoseNoRequest(t *testing.T) {
	c := Changes{For: 12 * time.Second, PerSecond: 10, Rate: 300, Baselines: 2, Pods: 2, Scratch: t.TempDir()}
	f, err := c.Run(t.Context())
	f.Print(t.Output(), c)
	if err != nil {
		t.Fatal(err)
	}
	if f.Requests.Failed > 0 || f.Requests.Wrong > 0 {
		t.Errorf("of %d requests %d failed and %d went wrong", f.Requests.Sent, f.Requests.Failed, f.Requests.Wrong)
	}
	if f.Changes < 20 || f.Requests.Refused == 0 || f.Requests.Multiplexed == 0 {
		t.Errorf("too little happened to show anything: %+v", f)
	}
}

func TestSidecarsServeAndRestartWithoutTheControlPlane(t *testing.T) {
	o := Outage{For: 12 * time.Second, Rate: 300, Pause: time.Second, Baselines: 2, Pods: 4, Scratch: t.TempDir()}
	f, err := o.Run(t.Context())
	f.Print(t.Output(), o)
	if err != nil {
		t.Fatal(err)
	}
	if f.Requests.Failed > 0 || f.Requests.Wrong > 0 || f.Requests.Lost > 0 || f.Unkept > 0 {
		t.Errorf("of %d requests %d failed, %d went wrong, %d were lost; %d answers were not kept",
			f.Requests.Sent, f.Requests.Failed, f.Requests.Wrong, f.Requests.Lost, f.Unkept)
	}
	if f.Drained == 0 || f.Killed == 0 || f.Requests.Multiplexed == 0 {
		t.Errorf("too little happened to show anything: %+v", f)
	}
}

func TestEnvoyRoutesAsTheTableRequires(t *testing.T) {
	e := Equality{Changes: 120, Each: 10, Restart: 20, Seed: 20261121, Baselines: 3, Pods: 1, Scratch: t.TempDir()}
	f, err := e.Run(t.Context())
	f.Print(t.Output(), e)
	if err != nil {
		t.Fatal(err)
	}
	if f.Differences > 0 {
		t.Errorf("%d differences", f.Differences)
	}
	if f.Rules < 1000 || len(f.Restarts) < 6 {
		t.Errorf("too little happened to show anything: %+v", f)
	}
}
