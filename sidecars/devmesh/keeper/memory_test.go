package keeper_test

import (
	"context"
	"net"
	"testing"
	"time"

	"switchyard.dev/sidecars/inject"
	flood "switchyard.dev/tests/attack"
)

// Clients that open streams and read nothing are ended before the sidecar uses more than half
// of its container's memory, and the others are served. make bench-devmesh shows it for 1,000
// clients, and each attack.
func TestStreamsThatNobodyReadsHoldALimitedMemory(t *testing.T) {
	r := newRig(t)
	app := r.app(8080)
	go func() { _ = flood.Serve(app) }() // ends with the listener
	r.serveXDS()
	process := r.sidecar().Process.Pid
	r.ready()
	address := net.JoinHostPort(r.address, "8080")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	watching, stop := context.WithCancel(ctx)
	var memory flood.Memory
	watched := make(chan error, 1)
	go func() {
		var err error
		memory, err = flood.Watch(watching, process)
		watched <- err
	}()
	held, err := flood.Flood(ctx, address, flood.Kind{Two: true, Streams: 100}, 40)
	r.must(err)
	defer held.Release()
	for held.Refused.Load() < 500 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if ctx.Err() != nil {
		t.Errorf("%d streams were ended, want at least 500", held.Refused.Load())
	}
	r.must(flood.Ready(t.Context(), address, time.Minute))
	stop()
	r.must(<-watched)
	t.Logf("peak %d MiB, %d ended", memory.Peak>>20, held.Refused.Load())
	limits := inject.DefaultResources().Limits
	if half := limits.Memory().Value() / 2; memory.Peak > half {
		t.Errorf("the sidecar held %d MiB, want at most %d", memory.Peak>>20, half>>20)
	}
	if memory.Restarts > 0 {
		t.Errorf("%d processes of the sidecar came in place of others", memory.Restarts)
	}
}
