package recording_test

import (
	"context"
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
		r, err := recording.Record(ctx, cfg, recording.Asked{Sandbox: s.ns, Workload: "cart"})
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
	stopOne := s.start("one")
	s.start("two")
	stop, ended := s.record(s.config())
	c := s.created()
	first := c.Spec.Lease.RenewTime
	s.attached(c, "False", "the container of pod cart-fork-1-x does not listen yet")
	s.says("waiting for TrafficCapture "+s.ns+"/"+c.Name, "does not listen yet")
	if c.Spec.Sandbox != s.ns || c.Spec.Workload != "cart" || c.Spec.Lease.Seconds != 120 {
		t.Errorf("the capture is %+v", c.Spec)
	}
	s.attached(c, "True", "every request is recorded")
	s.says("is ready: every request")
	s.deliver("one", c, 4, 1, 2, 3)
	s.sees("/1", "/2", "/3")
	s.deliver("two", c, 6, 3, 4, 5)
	s.sees("/1", "/2", "/3", "/4", "/5")
	stopOne()
	s.start("one")
	s.deliver("one", c, 7, 6)
	s.sees("/1", "/2", "/3", "/4", "/5", "/6")
	s.Eventually("the lease is renewed", func() error {
		s.Get(c)
		if !c.Spec.Lease.RenewTime.After(first.Time) {
			return errors.New("it is not")
		}
		return nil
	})
	stop()
	s.Eventually("the recording deletes its capture", func() error {
		if s.Get(c); c.DeletionTimestamp == nil {
			return errors.New("it exists")
		}
		return nil
	})
	s.deliver("two", c, 8, 7) // on its way
	s.detached(c)
	out := <-ended
	s.sees("/1", "/2", "/3", "/4", "/5", "/6", "/7")
	if n := out.Counts; out.err != nil || out.Read != 7 || n.GetSeen() != 8 || n.GetStored() != 7 || n.GetLost()["memory"] != 1 || n.GetEvicted()+n.GetSampledOut()+n.GetPending() != 0 || len(out.Unanswered) > 0 {
		t.Errorf("it ended with %+v, %v", out.Result, out.err)
	}
	if want := "ForkedWorkload/" + s.ns + "/cart-alice"; s.workload != want {
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
			s.report(c, func(*crdv1.TrafficCaptureStatus) {}, crdv1.StatusCondition{Type: crdv1.ConditionEnded, Status: "True", Reason: "Test", Message: "captures are disabled"})
		}, want: recording.ErrNotReady},
		"another user deletes it": {act: func(s *site, c *crdv1.TrafficCapture) {
			s.attached(c, "True", "ready")
			s.says("is ready")
			s.deliver("one", c, 2, 1)
			s.Remove(c)
		}, says: "has ended"},
		"the disk is full": {config: func(cfg *recording.Config) { cfg.Each = func(*trafficv1.Exchange, string) error { return full } }, act: func(s *site, c *crdv1.TrafficCapture) {
			s.attached(c, "True", "ready")
			s.says("is ready")
			s.deliver("one", c, 2, 1)
		}, want: full},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.start("one")
			cfg := s.config()
			if tt.config != nil {
				tt.config(&cfg)
			}
			_, ended := s.record(cfg)
			c := s.created()
			tt.act(s, c)
			s.detached(c)
			if out := <-ended; !errors.Is(out.err, tt.want) || tt.want == nil && out.err != nil || out.Result == nil {
				t.Errorf("it ended with %+v, %v", out.Result, out.err)
			}
			s.says(tt.says)
		})
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
		"no fork":    {recording.Asked{Sandbox: s.ns, Workload: "frontend"}, nil, recording.ErrNoFork, "has forks and external workloads of cart, and none of frontend"},
		"no ticket":  {recording.Asked{Sandbox: s.ns}, refused, refused, "ada may not read"},
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
	if _, err := recording.Record(t.Context(), cfg, recording.Asked{Sandbox: s.ns}); err == nil || !strings.Contains(err.Error(), "create a TrafficCapture in namespace "+s.ns) {
		t.Errorf("a user without the right to record: %v", err)
	}
	var all crdv1.TrafficCaptureList
	if s.List(&all); slices.ContainsFunc(all.Items, func(c crdv1.TrafficCapture) bool { return c.Namespace == s.ns }) {
		t.Errorf("there is %+v", all.Items)
	}
}
