package transparency

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/capture"
	"switchyard.dev/sidecars/traffic/ports"
	"switchyard.dev/sidecars/traffic/proxy"
	"switchyard.dev/sidecars/traffic/record"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/transparency/suite"
	"switchyard.dev/tools/wait"
)

// watched is the data path of the traffic container before the bare applications, with a capture of everything.
type watched struct {
	proxy    *proxy.Proxy
	recorder *capture.Recorder
	ports    map[int32]int32
}

// captured is the name of the capture.
const captured = "all"

// watch starts it in the pod of the bare applications.
func (r *Run) watch() (*watched, error) {
	w := &watched{}
	w.recorder = capture.New("transparency", func(f capture.Finished) { w.recorder.Delivered(f) })
	w.proxy = &proxy.Proxy{Observer: w.recorder.Observer, Logger: slog.New(slog.DiscardHandler)}
	var applications []int32
	for _, a := range r.all.list() {
		applications = append(applications, int32(a.Port))
	}
	w.ports = ports.Listening(applications, nil)
	all := &trafficv1.Capture{Uid: captured, Name: captured, Sample: 1, BodyBytes: 64 << 10}
	var listening []proxy.Port
	for application, own := range w.ports {
		all.Ports = append(all.Ports, &trafficv1.Port{Application: uint32(application), Listening: uint32(own)})
		listening = append(listening, proxy.Port{Application: application, Listening: own})
	}
	if err := w.recorder.Set([]*trafficv1.Capture{all}); err != nil {
		return nil, err
	}
	return w, r.rig.InBare(func() error { return w.proxy.Listen(listening...) })
}

// through returns the way past the capture to the target of a bare application.
func (w *watched) through(to suite.Target) suite.Target {
	bare := netip.MustParseAddrPort(to.Address)
	to.Address = net.JoinHostPort(bare.Addr().String(), fmt.Sprint(w.ports[int32(bare.Port())]))
	return to
}

// captured compares the applications with and without a capture in the path: no difference is allowed.
func (r *Run) captured(ctx context.Context) error {
	w, err := r.watch()
	if err != nil {
		return err
	}
	defer w.proxy.Close()
	work, group := errgroup.WithContext(ctx)
	work.SetLimit(3)
	for _, t := range r.past() {
		work.Go(func() error {
			if err := r.tryCaptured(group, w, t); err != nil {
				return fmt.Errorf("%s, %s: %w", t.app.Name, t.suite.Name(), err)
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	// A response can end later for the container than for the client: the connection of an exchange that was aborted, for example.
	var counts *trafficv1.CaptureCounts
	_ = wait.Until(ctx, time.Minute, "every exchange ends", func() error {
		counts = w.recorder.Counts(captured)[0]
		if counts.GetSeen() != counts.GetDelivered()+counts.GetLost()[record.Unreadable] {
			return errors.New("exchanges are open")
		}
		return nil
	})
	r.Captured = counts
	figures.Text(r.Out, "transparency_capture_differences", len(r.Changed), "cases", fmt.Sprintf("0 of %d", r.Watched), len(r.Changed) == 0)
	figures.Text(r.Out, "transparency_capture_exchanges", counts.GetDelivered(), "exchanges",
		fmt.Sprintf("more than 0; lost %v; %d connections are not HTTP", counts.GetLost(), w.proxy.Other()), counts.GetDelivered() > 0)
	return nil
}

// past returns the trials with a capture: with bytes, and in a short run without the suites that wait for long.
func (r *Run) past() []trial {
	size, long := r.Size, []string{"waiting", "h2spec", "redis"}
	if size.Bytes {
		long = nil
	}
	size.Bytes = true
	return slices.DeleteFunc(plan(r.all, r.its, size), func(t trial) bool { return slices.Contains(long, t.suite.Name()) })
}

// oneByOne returns the ways that are run at once: all, but those to Redis, where one application counts its subscribers.
func oneByOne(t trial, ways []suite.Target) [][]suite.Target {
	if t.suite.Name() == "redis" {
		return [][]suite.Target{ways[:1], ways[1:]}
	}
	return [][]suite.Target{ways}
}

// tryCaptured runs a suite in both ways. What differs is run once more where a suite can.
func (r *Run) tryCaptured(ctx context.Context, w *watched, t trial) error {
	bare := r.rig.Ways(t.app).Bare
	ways := []suite.Target{bare, w.through(bare)}
	began := time.Now()
	var seen []suite.Seen
	for _, some := range oneByOne(t, ways) {
		s, err := inWays(ctx, t.suite, some)
		if err != nil {
			return err
		}
		seen = append(seen, s...)
	}
	if err := r.again(ctx, t.suite, ways[0], ways[1], seen[0], seen[1]); err != nil {
		return err
	}
	found := Compare(t.suite.Name(), seen[0], seen[1], nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Watched += len(seen[0])
	fmt.Fprintf(r.Out, "%s, %s, captured: %d cases, %d the same, %s\n", t.app.Name, t.suite.Name(), len(seen[0]), len(seen[0])-len(found), time.Since(began).Round(time.Second))
	for _, d := range found {
		fmt.Fprintf(r.Out, "    %s\n", strings.TrimSpace(d.String()))
		r.Changed = append(r.Changed, d)
	}
	return nil
}
