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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
)

// countEvery is after how many polls the counters of replicas are read.
const countEvery = 5

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
	// rest: stored exchanges are read, and no later ones.
	rest bool

	// taking has the progress, and workloads, those of pods.
	taking    sync.Mutex
	progress  *Progress
	workloads map[string]string
}

func newRun(cfg Config) *run {
	r := &run{cfg: cfg, failed: make(chan error, 1), noted: map[string]bool{}, progress: cmp.Or(cfg.Progress, &Progress{}), workloads: map[string]string{}}
	for _, n := range r.progress.Captures {
		r.captures = append(r.captures, &crdv1.TrafficCapture{ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: n.Name}})
	}
	return r
}

// left reports whether another call continues the recording.
func (r *run) left() bool { return r.cfg.Left != nil && r.cfg.Left.Err() != nil }

// save has the caller save the progress.
func (r *run) save() error {
	r.taking.Lock()
	defer r.taking.Unlock()
	if r.cfg.Save == nil {
		return nil
	}
	return r.cfg.Save()
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
	for polls := 0; ; {
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
		if polls++; polls%countEvery == 0 && r.cfg.Progress != nil {
			r.counts(ctx, false) // which the progress keeps
		}
		if err := r.save(); err != nil {
			r.fail(err)
		}
		if done || !wake.Sleep(ctx, pollEvery) {
			return
		}
	}
}

// stream reads a capture from a replica until its end, again after an interruption.
func (r *run) stream(ctx context.Context, replica string, c *crdv1.TrafficCapture) {
	defer func() { r.mu.Lock(); r.streams--; r.mu.Unlock() }()
	r.taking.Lock()
	at := r.progress.Cursors[replica+"/"+c.Namespace]
	r.taking.Unlock()
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
		case status.Code(err) == codes.NotFound && r.gone(ctx, c):
			return // it was deleted long ago
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
	stream, err := readers.Read(ctx, &trafficv1.ReadRequest{CaptureNamespace: c.Namespace, Capture: c.Name, From: *at, Follow: !r.rest})
	for err == nil {
		var e *trafficv1.Entry
		if e, err = stream.Recv(); err != nil {
			break
		}
		*at = e.GetNext()
		if g := e.GetGap(); g.GetEvicted() > 0 || g.GetReason() != "" {
			r.once("replica %s of traffic-manager has evicted %d requests before they were read %s", replica, g.GetEvicted(), g.GetReason())
		}
		if wrong := r.take(ctx, c, replica, e); wrong != nil {
			r.fail(wrong)
			return nil
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// take hands over the exchange of an entry, if it has one that is new.
func (r *run) take(ctx context.Context, c *crdv1.TrafficCapture, replica string, e *trafficv1.Entry) error {
	r.taking.Lock()
	defer r.taking.Unlock()
	if x := e.GetExchange(); x != nil && r.progress.isNew(x) {
		err := r.cfg.Each(x, cmp.Or(x.GetMember(), r.workload(ctx, c, x.GetPod())))
		if errors.Is(err, ErrFull) {
			r.progress.Left++
			r.fail(err)
		} else if err != nil {
			return err
		}
		r.progress.took(x)
	}
	if r.progress.at(replica, c.Namespace, e.GetNext()); e.GetExchange() == nil || r.cfg.Save == nil {
		return nil
	}
	return r.cfg.Save()
}

// gone reports whether a capture does not exist.
func (r *run) gone(ctx context.Context, c *crdv1.TrafficCapture) bool {
	_, err := r.look(ctx, c)
	return apierrors.IsNotFound(err)
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

// counts returns the identity of the captures; end: nothing is read any more.
func (r *run) counts(ctx context.Context, end bool) *Result {
	all, unanswered := r.reports(ctx)
	return r.result(end, all, unanswered)
}

// reports returns the counts of replicas.
func (r *run) reports(ctx context.Context) (all []*trafficv1.Counts, unanswered []string) {
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
				unanswered = append(unanswered, replica)
				break
			}
			all = append(all, got)
		}
	}
	return all, unanswered
}

// result returns the identity with reports.
func (r *run) result(end bool, all []*trafficv1.Counts, unanswered []string) *Result {
	r.taking.Lock()
	defer r.taking.Unlock()
	return &Result{Counts: r.progress.count(end, all...), Read: r.progress.read(), Unanswered: unanswered, Began: r.progress.Ready}
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
