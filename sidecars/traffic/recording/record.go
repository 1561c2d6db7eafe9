package recording

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/members"
)

// Longest is the longest recording.
const Longest = time.Hour

const (
	// leaseSeconds is the time without a renewal after which a capture ends; renewEvery and renewSoon are the pauses between
	// renewals, and after a failed one.
	leaseSeconds          = 120
	renewEvery, renewSoon = 30 * time.Second, 2 * time.Second
	// pollEvery is the pause between two reads of captures, and of the replicas.
	pollEvery = time.Second
	// readyWithin bounds the wait for captures, drainWithin that for the last exchanges after their end, and callWithin
	// a call of the API server or of a replica after it.
	readyWithin, drainWithin, callWithin = 3 * time.Minute, time.Minute, 10 * time.Second
)

// draining is what the operator does at the end (trafficcapture.drain, and the proxies before it).
const draining = "; waiting until open connections have drained, usually 10 to 20 s"

// Errors of Record.
var (
	// ErrNoSandbox: there is no such sandbox. ErrNoFork: it has no member with requests to record, or none of that workload.
	ErrNoSandbox = errors.New("there is no such sandbox")
	ErrNoFork    = errors.New("there is no member to record")
	// ErrNoCapture: there is no such TrafficCapture.
	ErrNoCapture = errors.New("there is no such TrafficCapture")
	// ErrNotReady: a capture was not ready in time, or has ended before. The note before has the reason.
	ErrNotReady = errors.New("the recording does not begin")
	// ErrLeft is the error of a recording that another call can continue, because Left has ended or Save has returned it: its captures
	// stay.
	ErrLeft = errors.New("the recording is continued later")
	// ErrFull is an error of Each for an exchange that has no room. It ends the recording, and is returned; it and later ones are
	// counted as lost.
	ErrFull = errors.New("the recording has its maximum size")
)

// Asked is a recording that a user asks for.
type Asked struct {
	Sandbox string
	// Workload is the name of a baseline of the sandbox, or of an external or virtual workload in it; empty: all.
	Workload string
	// Traces is the beginning of the IDs of the traces to record, 16 digits; empty: all.
	Traces string
	// For is how long to record, at most Longest; 0: Longest; negative: that is over.
	For time.Duration
	// Capture, if set, is the existing capture to read instead of new ones, of any creator: the stored exchanges, and then new ones
	// until its end, too. Nothing in the cluster changes, and the optional fields of Config are not used. Sandbox, Workload and Traces are empty.
	Capture Name
}

// Config is how a recording reaches the cluster. All fields before Name are required.
type Config struct {
	// Client has the rights of the user.
	Client client.Client
	// Replicas returns the names of the replicas of traffic-manager that are ready.
	Replicas func(ctx context.Context) ([]string, error)
	// Dial connects to a replica until ctx ends.
	Dial func(ctx context.Context, replica string) (trafficv1.ReadersClient, error)
	// Ticket returns a ticket for a capture.
	Ticket func(ctx context.Context, namespace, capture string) (string, error)
	// Each gets each exchange once, with the workload that served it, KIND/NAMESPACE/NAME. Calls do not overlap. An error
	// ends the recording.
	Each func(x *trafficv1.Exchange, workload string) error
	// Note gets a line about the progress.
	Note func(text string)

	// Name is that of the captures. Default: it is generated. The others are optional, too.
	Name string
	// Left ends when the recording is to be left with ErrLeft. The context of Record is derived from it.
	Left context.Context //nolint:containedctx // beside that of the recording
	// Progress is where to begin, and is kept up to date; nil: at the beginning. It is changed during calls of Record, except
	// within Each and Save.
	Progress *Progress
	// Save is called after each call of Each, each change of Progress, and every second. Calls do not overlap. An error ends the
	// recording.
	Save func() error
}

// Result is how complete a recording is.
type Result struct {
	// Counts is the identity of the captures, as far as their replicas have answered.
	Counts *trafficv1.Counts
	// Read is the number of exchanges that Each got.
	Read uint64
	// Unanswered are the replicas that returned no counts.
	Unanswered []string
	// Began: the captures have been ready.
	Began bool
}

// Record records until ctx ends, the time is over, or the operator ends the capture, and then deletes it and reads what
// is left. It returns an error if it did not begin or could not go on. The result is there once a capture was created, except with ErrLeft.
func Record(ctx context.Context, cfg Config, asked Asked) (*Result, error) {
	if asked.Capture != (Name{}) {
		return follow(ctx, cfg, asked.Capture, asked.For)
	}
	r := newRun(cfg)
	err := r.create(ctx, asked)
	if len(r.captures) == 0 || errors.Is(err, ErrLeft) {
		return nil, err
	}
	return r.record(ctx, asked.For, err)
}

// create creates the captures that do not exist yet.
func (r *run) create(ctx context.Context, asked Asked) error {
	if r.progress.Ready {
		return nil
	}
	spaces, err := namespaces(ctx, r.cfg.Client, asked)
	for _, ns := range spaces {
		if slices.ContainsFunc(r.captures, func(c *crdv1.TrafficCapture) bool { return c.Namespace == ns }) {
			continue
		}
		c := &crdv1.TrafficCapture{ObjectMeta: metav1.ObjectMeta{GenerateName: asked.Sandbox + "-", Namespace: ns}}
		if r.cfg.Name != "" {
			c.GenerateName, c.Name = "", r.cfg.Name
		}
		c.Spec.Sandbox, c.Spec.Workload, c.Spec.Traces = asked.Sandbox, asked.Workload, asked.Traces
		c.Spec.Lease = &crdv1.CaptureLease{RenewTime: metav1.NowMicro(), Seconds: leaseSeconds}
		err = r.cfg.Client.Create(ctx, c, client.FieldValidation("Strict"))
		if apierrors.IsAlreadyExists(err) && r.cfg.Name != "" {
			err = nil // by a former call, which did not save that
		}
		if err != nil {
			err = fmt.Errorf("create a TrafficCapture in namespace %s: %w", ns, err)
			break
		}
		r.captures = append(r.captures, c)
		r.progress.Captures = append(r.progress.Captures, Name{c.Namespace, c.Name})
		if err = r.save(); err != nil {
			break
		}
		if _, err = r.cfg.Ticket(ctx, ns, c.Name); err != nil {
			break
		}
		r.cfg.Note(fmt.Sprintf("TrafficCapture %s/%s is created", ns, c.Name))
	}
	if r.left() {
		return ErrLeft
	}
	return err
}

// namespaces returns those of the members that are asked for.
func namespaces(ctx context.Context, c client.Reader, asked Asked) ([]string, error) {
	s := &crdv1.SignadotSandbox{}
	if err := c.Get(ctx, client.ObjectKey{Name: asked.Sandbox}, s); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: %s", ErrNoSandbox, asked.Sandbox)
	} else if err != nil {
		return nil, fmt.Errorf("read SignadotSandbox %s: %w", asked.Sandbox, err)
	}
	return spacesOf(s, asked)
}

// spacesOf returns the namespaces of the members of a sandbox that are asked for.
func spacesOf(s *crdv1.SignadotSandbox, asked Asked) ([]string, error) {
	all := members.Of(s)
	in := lists.Filter(all, func(r members.Member) bool { return asked.Workload == "" || r.Is(asked.Workload) })
	switch {
	case len(all) == 0:
		return nil, fmt.Errorf("%w: sandbox %s has no fork, no external workload with a baseline, and no virtual workload", ErrNoFork, asked.Sandbox)
	case len(in) == 0:
		return nil, fmt.Errorf("%w: sandbox %s has forks, external and virtual workloads of %s, and none of %s", ErrNoFork, asked.Sandbox, strings.Join(lists.Unique(lists.Map(all, members.Member.String)), ", "), asked.Workload)
	}
	return lists.Unique(lists.Map(in, func(r members.Member) string { return r.Namespace })), nil
}

// record records until the end. It deletes the captures whatever happens; err is that of their creation.
func (r *run) record(ctx context.Context, most time.Duration, err error) (*Result, error) {
	going, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	if r.cfg.Left != nil {
		defer context.AfterFunc(r.cfg.Left, stop)()
	}
	go r.renew(going)
	if err == nil && !r.progress.Ready {
		err = r.awaitReady(ctx)
	}
	ended := make(chan struct{})
	if err == nil {
		r.progress.Ready = true
		if err = r.save(); err != nil {
			r.fail(err)
		}
		go func() { r.read(going); close(ended) }()
		err = r.wait(ctx, most, ended, draining)
	} else {
		close(ended)
	}
	if errors.Is(err, ErrLeft) || r.left() {
		stop()
		<-ended
		return nil, errors.Join(ErrLeft, err)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil // That is how it ends.
	}
	deleted := r.remove(going)
	select {
	case <-ended:
	case <-going.Done():
	case <-time.After(drainWithin):
		r.cfg.Note(fmt.Sprintf("the last requests have not arrived within %s of the end", drainWithin))
	}
	result := r.counts(going, true)
	stop()
	<-ended
	select {
	case failed := <-r.failed: // since the wait has ended
		if errors.Is(failed, ErrLeft) {
			return nil, failed
		}
		err = cmp.Or(err, failed)
	default:
	}
	if r.left() {
		return nil, ErrLeft
	}
	return result, errors.Join(err, deleted)
}

// wait waits for the end of a recording. It returns why it could not go on. A note about an end that the user wanted has then, too.
func (r *run) wait(ctx context.Context, asked time.Duration, ended <-chan struct{}, then string) error {
	most := max(asked, 0)
	if asked == 0 || most > Longest {
		most = Longest
	}
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-ctx.Done():
		if !r.left() {
			r.cfg.Note("interrupted" + then)
		}
		return nil
	case <-late.C:
		r.cfg.Note(fmt.Sprintf("%s are over%s", most, then))
		return nil
	case err := <-r.failed:
		return err
	case <-ended:
	}
	for _, c := range r.captures {
		why := "it was deleted"
		if now, err := r.look(ctx, c); !apierrors.IsNotFound(err) {
			why = condition(now, crdv1.ConditionEnded).Message
		}
		r.cfg.Note(fmt.Sprintf("TrafficCapture %s/%s has ended: %s", c.Namespace, c.Name, why))
	}
	return nil
}

// condition returns a condition of a capture.
func condition(c *crdv1.TrafficCapture, of string) crdv1.StatusCondition {
	if found := crdv1.FindCondition(c.Status.Conditions, of); found != nil {
		return *found
	}
	return crdv1.StatusCondition{Message: "the operator has not reported on it"}
}

// look returns a capture as it is now.
func (r *run) look(ctx context.Context, c *crdv1.TrafficCapture) (*crdv1.TrafficCapture, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	now := &crdv1.TrafficCapture{}
	err := r.cfg.Client.Get(ctx, client.ObjectKeyFromObject(c), now)
	return now, err
}

// awaitReady waits until all captures are ready: all requests that begin later are seen.
func (r *run) awaitReady(ctx context.Context) error {
	for until := time.Now().Add(readyWithin); ; {
		waits := 0
		for _, c := range r.captures {
			of := c.Namespace + "/" + c.Name
			now, err := r.look(ctx, c)
			switch ended, ready := condition(now, crdv1.ConditionEnded), condition(now, crdv1.ConditionReady); {
			case apierrors.IsNotFound(err):
				return fmt.Errorf("%w: TrafficCapture %s was deleted", ErrNotReady, of)
			case err != nil:
				waits++
				r.once("TrafficCapture %s cannot be read: %v", of, err)
			case ended.Status == string(metav1.ConditionTrue):
				return fmt.Errorf("%w: TrafficCapture %s has ended: %s", ErrNotReady, of, ended.Message)
			case ready.Status == string(metav1.ConditionTrue):
				r.once("TrafficCapture %s is ready: %s", of, ready.Message)
			default:
				waits++
				r.once("waiting for TrafficCapture %s: %s", of, ready.Message)
			}
		}
		if err := r.save(); err != nil {
			return err
		}
		switch {
		case waits == 0:
			return nil
		case time.Now().After(until):
			return fmt.Errorf("%w: it was not ready within %s", ErrNotReady, readyWithin)
		case !wake.Sleep(ctx, pollEvery):
			return ctx.Err()
		}
	}
}

// renew keeps the leases until ctx ends.
func (r *run) renew(ctx context.Context) {
	wake.Keep(ctx, renewSoon, renewEvery, func(ctx context.Context) (err error) {
		for _, c := range r.captures {
			patch := fmt.Sprintf(`{"spec":{"lease":{"renewTime":%q}}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
			one, cancel := context.WithTimeout(ctx, callWithin)
			o := &crdv1.TrafficCapture{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}
			wrong := r.cfg.Client.Patch(one, o, client.RawPatch(types.MergePatchType, []byte(patch)))
			cancel()
			if wrong = client.IgnoreNotFound(wrong); wrong != nil {
				err = fmt.Errorf("renew the lease of TrafficCapture %s/%s: %w", c.Namespace, c.Name, wrong)
			}
		}
		return err
	}, func(err error) { r.cfg.Note(err.Error()) })
}

// remove deletes the captures.
func (r *run) remove(ctx context.Context) (err error) {
	r.mu.Lock()
	r.ending = true
	r.mu.Unlock()
	for _, c := range r.captures {
		one, cancel := context.WithTimeout(ctx, callWithin)
		wrong := r.cfg.Client.Delete(one, &crdv1.TrafficCapture{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}})
		cancel()
		if wrong = client.IgnoreNotFound(wrong); wrong != nil {
			err = errors.Join(err, fmt.Errorf("TrafficCapture %s/%s is not deleted, and ends within %d s by itself: %w", c.Namespace, c.Name, leaseSeconds, wrong))
		}
	}
	return err
}
