package recording_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/recording"
)

// outcome is that of a recording.
type outcome struct {
	*recording.Result
	err error
}

// record records until stop is called; the outcome comes then.
func (s *site) record(cfg recording.Config) (stop func(), ended <-chan outcome) {
	ctx, cancel := context.WithCancel(s.Context())
	s.Cleanup(cancel)
	done := make(chan outcome, 1)
	go func() {
		r, err := recording.Record(ctx, cfg, recording.Asked{Sandbox: s.Namespace, Workload: "cart"})
		done <- outcome{r, err}
	}()
	return cancel, done
}

// sees waits until the recording has exactly these exchanges.
func (s *site) sees(want ...string) {
	s.Helper()
	s.Eventually(fmt.Sprintf("the recording has %q", want), func() error {
		if _, got := s.noted(); !slices.Equal(got, want) {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
}

func (s *site) says(texts ...string) {
	s.Helper()
	for _, text := range texts {
		s.Eventually("it is noted: "+text, func() error {
			if notes, _ := s.noted(); !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, text) }) {
				return fmt.Errorf("the notes are %q", notes)
			}
			return nil
		})
	}
}

// Each exchange is recorded once, from every replica, also when a pod has delivered it to two of them, and when a replica
// restarts. At the end the capture is deleted, and exchanges that are delivered until then are read.
func TestARecordingFromItsBeginningToItsEnd(t *testing.T) {
	s := newSite(t)
	stopOne := s.Start("one")
	s.Start("two")
	stop, ended := s.record(s.config())
	c := s.Created()
	first := c.Spec.Lease.RenewTime
	s.Attached(c, "False", "the container of pod cart-fork-1-x does not listen yet")
	s.says("waiting for TrafficCapture "+s.Namespace+"/"+c.Name, "does not listen yet")
	if c.Spec.Sandbox != s.Namespace || c.Spec.Workload != "cart" || c.Spec.Lease.Seconds != 120 {
		t.Errorf("the capture is %+v", c.Spec)
	}
	s.Attached(c, "True", "every request is recorded")
	s.says("is ready: every request")
	s.Deliver("one", c, 4, 1, 2, 3)
	s.sees("/1", "/2", "/3")
	s.Deliver("two", c, 6, 3, 4, 5)
	s.sees("/1", "/2", "/3", "/4", "/5")
	stopOne()
	s.Start("one")
	s.Deliver("one", c, 7, 6)
	s.sees("/1", "/2", "/3", "/4", "/5", "/6")
	s.Eventually("the lease is renewed", func() error {
		s.Get(c)
		if !c.Spec.Lease.RenewTime.After(first.Time) {
			return errors.New("it is not")
		}
		return nil
	})
	stop()
	s.says("interrupted; waiting until open connections have drained, usually 10 to 20 s")
	s.Eventually("the recording deletes its capture", func() error {
		if s.Get(c); c.DeletionTimestamp == nil {
			return errors.New("it exists")
		}
		return nil
	})
	s.Deliver("two", c, 8, 7) // on its way
	s.Detached(c)
	out := <-ended
	s.sees("/1", "/2", "/3", "/4", "/5", "/6", "/7")
	if n := out.Counts; out.err != nil || !out.Began || out.Read != 7 || n.GetSeen() != 8 || n.GetStored() != 7 || n.GetLost()["memory"] != 1 || n.GetEvicted()+n.GetSampledOut()+n.GetPending() != 0 || len(out.Unanswered) > 0 {
		t.Errorf("it ended with %+v, %v", out.Result, out.err)
	}
	if want := "ForkedWorkload/" + s.Namespace + "/cart-alice"; s.workload != want {
		t.Errorf("the workload is %s", s.workload)
	}
}

// A capture that the operator ends, or another user deletes, ends the recording; so does a full disk. The capture is deleted
// each time.
func TestTheOtherEndsOfARecording(t *testing.T) {
	full := errors.New("the disk is full")
	for name, tt := range map[string]struct {
		config func(*recording.Config)
		act    func(s *site, c *crdv1.TrafficCapture)
		want   error
		says   string
	}{
		"it never begins": {act: func(s *site, c *crdv1.TrafficCapture) {
			s.Report(c, func(*crdv1.TrafficCaptureStatus) {}, crdv1.StatusCondition{Type: crdv1.ConditionEnded, Status: "True", Reason: "Test", Message: "captures are disabled"})
		}, want: recording.ErrNotReady},
		"another user deletes it": {act: func(s *site, c *crdv1.TrafficCapture) {
			s.Attached(c, "True", "ready")
			s.says("is ready")
			s.Deliver("one", c, 2, 1)
			s.Remove(c)
		}, says: "has ended"},
		"the disk is full": {config: func(cfg *recording.Config) { cfg.Each = func(*trafficv1.Exchange, string) error { return full } }, act: func(s *site, c *crdv1.TrafficCapture) {
			s.Attached(c, "True", "ready")
			s.says("is ready")
			s.Deliver("one", c, 2, 1)
		}, want: full},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.Start("one")
			cfg := s.config()
			if tt.config != nil {
				tt.config(&cfg)
			}
			_, ended := s.record(cfg)
			c := s.Created()
			tt.act(s, c)
			s.Detached(c)
			if out := <-ended; !errors.Is(out.err, tt.want) || tt.want == nil && out.err != nil || out.Result == nil || out.Began != (tt.want != recording.ErrNotReady) { //nolint:errorlint // of the table
				t.Errorf("it ended with %+v, %v", out.Result, out.err)
			}
			s.says(tt.says)
		})
	}
}

// An exchange that arrives after the user has ended the recording, and cannot be kept, is no evicted one.
func TestADiskThatIsFullAtTheEnd(t *testing.T) {
	s := newSite(t)
	s.Start("one")
	cfg, full := s.config(), errors.New("the disk is full")
	each := cfg.Each
	cfg.Each = func(x *trafficv1.Exchange, workload string) error {
		if x.GetRequest().GetTarget() == "/2" {
			return full
		}
		return each(x, workload)
	}
	stop, ended := s.record(cfg)
	c := s.Created()
	s.Attached(c, "True", "ready")
	s.Deliver("one", c, 3, 1)
	s.sees("/1")
	stop()
	s.says("interrupted")
	s.Deliver("one", c, 3, 2)
	s.Detached(c)
	if out := <-ended; !errors.Is(out.err, full) || out.Result == nil || out.Read != 1 {
		t.Errorf("it ended with %+v, %v", out.Result, out.err)
	}
}

// Without a right or a fork, nothing stays.
func TestARecordingThatIsRefused(t *testing.T) {
	s := newSite(t)
	refused := status.Error(codes.PermissionDenied, "ada may not read")
	for name, tt := range map[string]struct {
		asked  recording.Asked
		ticket error
		want   error
		says   string
	}{
		"no sandbox": {recording.Asked{Sandbox: "none"}, nil, recording.ErrNoSandbox, "none"},
		"no fork":    {recording.Asked{Sandbox: s.Namespace, Workload: "frontend"}, nil, recording.ErrNoFork, "has forks, external and virtual workloads of cart, and none of frontend"},
		"no ticket":  {recording.Asked{Sandbox: s.Namespace}, refused, refused, "ada may not read"},
	} {
		cfg := s.config()
		if tt.ticket != nil {
			cfg.Ticket = func(context.Context, string, string) (string, error) { return "", tt.ticket }
		}
		if _, err := recording.Record(t.Context(), cfg, tt.asked); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg := s.config()
	cfg.Client = s.ClientWith(s.As("eve"), func() (*runtime.Scheme, error) { return s.Client.Scheme(), nil })
	s.Grant("eve", "", rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"signadotsandboxes"}, Verbs: []string{"get"}})
	if _, err := recording.Record(t.Context(), cfg, recording.Asked{Sandbox: s.Namespace}); err == nil || !strings.Contains(err.Error(), "create a TrafficCapture in namespace "+s.Namespace) {
		t.Errorf("a user without the right to record: %v", err)
	}
	var all crdv1.TrafficCaptureList
	if s.List(&all); slices.ContainsFunc(all.Items, func(c crdv1.TrafficCapture) bool { return c.Namespace == s.Namespace }) {
		t.Errorf("there is %+v", all.Items)
	}
}

// A recording that is left is continued by another call: exchanges that were saved are not recorded again, and one that was read and not saved
// is. Exchanges of a replica that has gone in the meantime are not lost if they were recorded.
func TestARecordingThatIsContinued(t *testing.T) {
	s := newSite(t)
	s.Start("one")
	stopTwo := s.Start("two")
	progress, saved := &recording.Progress{}, []byte("{}")
	failing := false
	cfg := s.config()
	cfg.Name, cfg.Progress = "kept", progress
	cfg.Save = func() (err error) {
		if _, got := s.noted(); failing && len(got) == 5 {
			return fmt.Errorf("%w: the disk has gone", recording.ErrLeft)
		}
		saved, err = json.Marshal(progress)
		return err
	}
	ctx, leave := context.WithCancel(t.Context())
	cfg.Left = ctx
	done := make(chan outcome, 1)
	on := func(ctx context.Context) {
		r, err := recording.Record(ctx, cfg, recording.Asked{Sandbox: s.Namespace})
		done <- outcome{r, err}
	}
	go on(ctx)
	c := s.Created()
	s.Attached(c, "True", "ready")
	s.Deliver("one", c, 3, 1)
	s.Deliver("two", c, 4, 2, 3)
	s.sees("/1", "/2", "/3")
	leave()
	if out := <-done; !errors.Is(out.err, recording.ErrLeft) || out.Result != nil || s.Look(c) != nil || c.DeletionTimestamp != nil {
		t.Fatalf("it was left with %+v, %v", out.Result, out.err)
	}
	resume := func() {
		cfg.Left = nil
		progress = &recording.Progress{}
		s.Must(json.Unmarshal(saved, progress))
		cfg.Progress = progress
	}
	resume()
	failing = true
	go on(t.Context())
	s.Deliver("one", c, 6, 4, 5)
	if out := <-done; !errors.Is(out.err, recording.ErrLeft) {
		t.Fatalf("a save has failed, and it ended with %+v, %v", out.Result, out.err)
	}
	failing = false
	resume()
	stopTwo()
	s.Forget("two")
	ctx, stop := context.WithCancel(t.Context())
	go on(ctx)
	s.sees("/1", "/2", "/3", "/4", "/5", "/5") // 5 was read, and not saved
	stop()
	s.Detached(c)
	out := <-done
	n := out.Counts
	if out.err != nil || c.Name != "kept" || out.Read != 5 || n.GetSeen() != 6 || n.GetStored() != 5 || n.GetLost()["memory"] != 1 || n.GetEvicted()+n.GetPending()+n.GetLost()["restart"] != 0 {
		t.Errorf("it ended with %+v, %v", out.Result, out.err)
	}
}

// An exchange without room ends a recording, and it and later ones are counted.
func TestARecordingThatIsFull(t *testing.T) {
	s := newSite(t)
	s.Start("one")
	cfg, room := s.config(), 2
	each := cfg.Each
	cfg.Each = func(x *trafficv1.Exchange, workload string) error {
		if room--; room < 0 {
			return recording.ErrFull
		}
		return each(x, workload)
	}
	_, ended := s.record(cfg)
	c := s.Created()
	s.Attached(c, "True", "ready")
	s.Deliver("one", c, 5, 1, 2, 3, 4)
	s.Detached(c)
	out := <-ended
	if n := out.Counts; !errors.Is(out.err, recording.ErrFull) || out.Read != 2 || n.GetSeen() != 5 || n.GetStored() != 2 || n.GetLost()[recording.Full] != 2 || n.GetLost()["memory"] != 1 || n.GetEvicted()+n.GetPending() != 0 {
		t.Errorf("it ended with %+v, %v", out.Result, out.err)
	}
}

// A capture that a user wrote is read with the right to get it: stored exchanges, and then new ones, from every replica, also those that were not yet read
// when the reading was interrupted. It stays as it is, and its own end ends the reading.
func TestACaptureThatExists(t *testing.T) {
	s := newSite(t)
	s.Start("one")
	s.Start("two")
	s.Make(&crdv1.TrafficCapture{}, "metadata: {name: mine, namespace: "+s.Namespace+"}\nspec: {sandbox: "+s.Namespace+", workload: cart}")
	c := s.Created()
	s.Attached(c, "True", "every request is recorded")
	s.Deliver("one", c, 3, 1, 2)
	s.Grant("eve", "", rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"trafficcaptures"}, Verbs: []string{"get"}})
	cfg := s.config()
	cfg.Client = s.ClientWith(s.As("eve"), func() (*runtime.Scheme, error) { return s.Client.Scheme(), nil })
	asked := recording.Asked{Capture: recording.Name{Namespace: s.Namespace, Name: "none"}}
	if _, err := recording.Record(t.Context(), cfg, asked); !errors.Is(err, recording.ErrNoCapture) || !strings.Contains(err.Error(), s.Namespace+"/none") {
		t.Errorf("a capture that does not exist: %v", err)
	}
	asked.Capture.Name = "mine"
	each, slow, gate := cfg.Each, "/4", make(chan struct{})
	cfg.Each = func(x *trafficv1.Exchange, workload string) error {
		err := each(x, workload)
		if x.GetRequest().GetTarget() == slow {
			<-gate
		}
		return err
	}
	done := make(chan outcome, 1)
	on := func(ctx context.Context) {
		r, err := recording.Record(ctx, cfg, asked)
		done <- outcome{r, err}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s.Get(c)
	before := c.ResourceVersion
	go on(ctx)
	s.sees("/1", "/2")
	s.Deliver("two", c, 4, 3)
	s.sees("/1", "/2", "/3")
	s.Deliver("one", c, 5, 4)
	s.sees("/1", "/2", "/3", "/4")
	stop()
	s.says("is read: every request", "interrupted")
	s.Deliver("one", c, 7, 5, 6) // before the counts
	close(gate)
	out := <-done
	s.sees("/1", "/2", "/3", "/4", "/5", "/6")
	if n := out.Counts; out.err != nil || !out.Began || out.Read != 6 || n.GetSeen() != 7 || n.GetStored() != 6 || n.GetLost()["memory"] != 1 || n.GetEvicted()+n.GetSampledOut()+n.GetPending() != 0 {
		t.Errorf("it ended with %+v, %v", out.Result, out.err)
	}
	if s.Get(c); c.ResourceVersion != before {
		t.Errorf("the capture has changed: %+v", c)
	}
	go on(t.Context())
	s.sees("/1", "/1", "/2", "/2", "/3", "/3", "/4", "/4", "/5", "/5", "/6", "/6")
	s.Remove(c)
	s.Detached(c)
	if out := <-done; out.err != nil || out.Read != 6 || out.Counts.GetStored() != 6 {
		t.Errorf("the capture was deleted, and it ended with %+v, %v", out.Result, out.err)
	}
	s.says("mine has ended: ")
}
