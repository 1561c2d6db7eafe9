package recording

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/record"
)

// firstPause and lastPause are the pauses between two attempts to read a replica.
const firstPause, lastPause = 200 * time.Millisecond, 3 * time.Second

// run is a recording.
type run struct {
	cfg      Config
	captures []*crdv1.TrafficCapture // as they were created
	// failed gets an error with which it cannot go on.
	failed chan error

	mu sync.Mutex
	// replicas are those that exist, and streams the number of those that have not ended.
	replicas []string
	streams  int
	noted    map[string]bool
	ending   bool

	// taking has the fields of take.
	taking sync.Mutex
	// seen are the exchanges of each capture, pod and incarnation, workloads those of pods.
	seen      map[[3]string][]*trafficv1.Span
	workloads map[string]string
	taken     uint64
}

func newRun(cfg Config) *run {
	return &run{cfg: cfg, failed: make(chan error, 1), noted: map[string]bool{}, seen: map[[3]string][]*trafficv1.Span{}, workloads: map[string]string{}}
}

// once notes a text that was not noted before.
func (r *run) once(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.noted[text] {
		r.noted[text] = true
		r.cfg.Note(text)
	}
}

// read reads every replica until its streams have ended, or ctx does.
func (r *run) read(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	known := map[string]bool{}
	for {
		names, err := r.cfg.Replicas(ctx)
		if err != nil && ctx.Err() == nil {
			r.once("the replicas of traffic-manager are not known: %v", err)
		}
		r.mu.Lock()
		if err == nil {
			r.replicas = names
		}
		for _, name := range names {
			if known[name] {
				continue
			}
			known[name] = true
			for _, c := range r.captures {
				r.streams++
				all.Go(func() { r.stream(ctx, name, c) })
			}
		}
		done := len(known) > 0 && r.streams == 0
		r.mu.Unlock()
		if done || !wake.Sleep(ctx, pollEvery) {
			return
		}
	}
}

// stream reads a capture from a replica until its end, again after an interruption.
func (r *run) stream(ctx context.Context, replica string, c *crdv1.TrafficCapture) {
	defer func() { r.mu.Lock(); r.streams--; r.mu.Unlock() }()
	var at *trafficv1.Cursor
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		before := at
		err := r.receive(ctx, replica, c, &at)
		if at != before {
			pause = firstPause
		}
		switch {
		case err == nil || ctx.Err() != nil:
			return
		case status.Code(err) == codes.PermissionDenied:
			r.fail(err)
			return
		}
		switch exists, ending := r.state(replica); {
		case !exists:
			r.once("replica %s of traffic-manager was deleted: requests that only it stored are lost", replica)
			return
		case status.Code(err) != codes.NotFound: // It sees the capture soon.
			r.once("replica %s of traffic-manager is not read, trying again: %v", replica, err)
		case ending:
			return
		}
		if !wake.Sleep(ctx, pause) {
			return
		}
	}
}

// state reports whether a replica exists, and whether the captures are deleted.
func (r *run) state(replica string) (exists, ending bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.replicas, replica), r.ending
}

// fail ends the recording with an error.
func (r *run) fail(err error) {
	select {
	case r.failed <- err:
	default: // There is one.
	}
}

// call returns a replica, and the context of calls about a capture.
func (r *run) call(ctx context.Context, replica string, c *crdv1.TrafficCapture) (trafficv1.ReadersClient, context.Context, error) {
	ticket, err := r.cfg.Ticket(ctx, c.Namespace, c.Name)
	if err != nil {
		return nil, ctx, err
	}
	readers, err := r.cfg.Dial(ctx, replica)
	return readers, metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+ticket), err
}

// receive receives one stream to its end, and records in at where to continue.
func (r *run) receive(ctx context.Context, replica string, c *crdv1.TrafficCapture, at **trafficv1.Cursor) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	readers, ctx, err := r.call(ctx, replica, c)
	if err != nil {
		return err
	}
	stream, err := readers.Read(ctx, &trafficv1.ReadRequest{CaptureNamespace: c.Namespace, Capture: c.Name, From: *at, Follow: true})
	for err == nil {
		var e *trafficv1.Entry
		if e, err = stream.Recv(); err != nil {
			break
		}
		*at = e.GetNext()
		if g := e.GetGap(); g.GetEvicted() > 0 || g.GetReason() != "" {
			r.once("replica %s of traffic-manager has evicted %d requests before they were read %s", replica, g.GetEvicted(), g.GetReason())
		}
		if x := e.GetExchange(); x != nil {
			if wrong := r.take(ctx, c, x); wrong != nil {
				r.fail(wrong)
				return nil
			}
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// take hands over an exchange that is new.
func (r *run) take(ctx context.Context, c *crdv1.TrafficCapture, x *trafficv1.Exchange) error {
	r.taking.Lock()
	defer r.taking.Unlock()
	of := [3]string{x.GetCaptureUid(), x.GetPod(), x.GetIncarnation()}
	var missing bool
	if r.seen[of], missing = record.Add(r.seen[of], x.GetNumber(), x.GetNumber()); !missing {
		return nil
	}
	r.taken++
	return r.cfg.Each(x, cmp.Or(x.GetMember(), r.workload(ctx, c, x.GetPod())))
}

// workload returns the workload of a pod, KIND/NAMESPACE/NAME; the pod itself if the capture does not name it.
func (r *run) workload(ctx context.Context, c *crdv1.TrafficCapture, pod string) string {
	of := c.Namespace + "/" + pod
	if r.workloads[of] == "" {
		r.workloads[of] = "Pod/" + of
		if now, err := r.look(ctx, c); err == nil {
			for _, p := range now.Status.Pods {
				r.workloads[c.Namespace+"/"+p.Name] = crdv1.KindForkedWorkload + "/" + c.Namespace + "/" + p.Workload
			}
		}
	}
	return r.workloads[of]
}

// counts returns the identity of the captures.
func (r *run) counts(ctx context.Context) *Result {
	out := &Result{}
	var all []*trafficv1.Counts
	r.mu.Lock()
	replicas := r.replicas
	r.mu.Unlock()
	for _, replica := range replicas {
		for _, c := range r.captures {
			got, err := r.count(ctx, replica, c)
			if status.Code(err) == codes.NotFound {
				continue
			}
			if err != nil {
				r.once("replica %s of traffic-manager returns no counts: %v", replica, err)
				out.Unanswered = append(out.Unanswered, replica)
				break
			}
			all = append(all, got)
		}
	}
	out.Counts = record.Merge(all...)
	return out
}

func (r *run) count(ctx context.Context, replica string, c *crdv1.TrafficCapture) (*trafficv1.Counts, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	readers, ctx, err := r.call(ctx, replica, c)
	if err != nil {
		return nil, err
	}
	return readers.Counts(ctx, &trafficv1.CountsRequest{CaptureNamespace: c.Namespace, Capture: c.Name})
}
