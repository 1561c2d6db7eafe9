package admission_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"switchyard.dev/controlplane-link/admission"
	linkv1 "switchyard.dev/protos/gen/link/v1"
)

var start = time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)

const lease = 15 * time.Second

func TestWhichAgentHasTheSession(t *testing.T) {
	type step struct {
		instance string
		after    time.Duration // the step before
		ended    bool          // the present session ends first
		epoch    uint64        // 0: it is refused as superseded
		// superseded: it states that a newer agent took its last session.
		superseded bool
	}
	for name, steps := range map[string][]step{
		"one agent, over and over":                          {{"a", 0, false, 1, false}, {"a", time.Hour, false, 2, false}, {"a", 0, false, 3, false}},
		"a newer agent takes over":                          {{"a", 0, false, 1, false}, {"b", time.Minute, false, 2, false}},
		"the former one is refused":                         {{"a", 0, false, 1, false}, {"b", time.Second, false, 2, false}, {"a", time.Second, false, 0, false}, {"b", time.Second, false, 3, false}, {"a", time.Second, false, 0, false}},
		"it returns when the session has ended":             {{"a", 0, false, 1, false}, {"b", time.Second, false, 2, false}, {"a", time.Second, true, 3, false}, {"b", time.Second, false, 0, false}},
		"it returns when the session is lost":               {{"a", 0, false, 1, false}, {"b", time.Second, false, 2, false}, {"a", lease, false, 3, false}},
		"it returns first to a registry that was restarted": {{"a", 0, false, 1, true}, {"b", time.Second, false, 2, false}, {"a", time.Second, false, 0, false}},
		"it returns last to a registry that was restarted":  {{"b", 0, false, 1, false}, {"a", time.Second, false, 0, true}, {"b", time.Second, false, 2, false}},
		"of three the newest has it":                        {{"a", 0, false, 1, false}, {"b", time.Second, false, 2, false}, {"c", time.Second, false, 3, false}, {"a", time.Second, false, 0, false}, {"b", time.Second, false, 0, false}},
		"two of three return, and the last one has it":      {{"a", 0, false, 1, false}, {"b", time.Second, false, 2, false}, {"c", time.Second, false, 3, false}, {"a", time.Second, true, 4, false}, {"b", time.Second, false, 0, false}, {"c", time.Second, false, 0, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var e admission.Entry
			now := start
			for i, s := range steps {
				now = now.Add(s.after)
				if s.ended {
					e, _ = e.Renew(e.Epoch, time.Time{})
				}
				next, refused := e.Admit(&linkv1.Hello{Instance: s.instance, Superseded: s.superseded}, "r", now, lease)
				switch {
				case s.epoch == 0:
					if refused.GetReason() != linkv1.Reason_REASON_SUPERSEDED || refused.GetRetryAfter().AsDuration() <= 0 || !next.Equal(e) {
						t.Fatalf("step %d: %v, %+v", i, refused, next)
					}
				case refused != nil || next.Epoch != s.epoch || next.Instance != s.instance || !next.Live(now):
					t.Fatalf("step %d: %v, %+v", i, refused, next)
				}
				e = next
			}
		})
	}
}

func TestOnlyTheNewestSessionIsRenewed(t *testing.T) {
	e, _ := admission.Entry{}.Admit(&linkv1.Hello{Instance: "a"}, "r", start, lease)
	later, ours := e.Renew(1, start.Add(time.Hour))
	if !ours || !later.Live(start.Add(lease)) {
		t.Errorf("%+v, %t", later, ours)
	}
	next, _ := later.Admit(&linkv1.Hello{Instance: "b"}, "r", start, lease)
	if same, ours := next.Renew(1, start.Add(time.Hour)); ours || !same.Equal(next) {
		t.Errorf("the former session was renewed: %+v", same)
	}
}

// TestRandomAgents has agents come in any order: epochs grow, the agent that was admitted last is
// never refused, and the entry stays small.
func TestRandomAgents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e admission.Entry
		now := start
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "passes")))
			instance := fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "instance"))
			next, refused := e.Admit(&linkv1.Hello{Instance: instance}, "r", now, lease)
			switch {
			case refused != nil:
				if instance == e.Instance || !e.Live(now) || !next.Equal(e) {
					t.Fatalf("%s was refused: %+v", instance, e)
				}
			case next.Epoch != e.Epoch+1 || next.Instance != instance || !next.Live(now):
				t.Fatalf("%s was admitted with %+v", instance, next)
			case len(next.Superseded) > 16 || slices.Contains(next.Superseded, instance):
				t.Fatalf("%d are superseded: %v", len(next.Superseded), next.Superseded)
			}
			e = next
		}
	})
}

func TestInvalidHellosAreRefused(t *testing.T) {
	valid := func() *linkv1.Hello {
		return &linkv1.Hello{Version: admission.Version, Token: "s3cret-token", ClusterUid: "uid", Instance: "a", OperatorVersion: "1"}
	}
	if refused := admission.Invalid(valid()); refused != nil {
		t.Fatal(refused)
	}
	long := strings.Repeat("x", 257)
	for name, change := range map[string]func(*linkv1.Hello){
		"version":      func(h *linkv1.Hello) { h.Version = 2 },
		"no token":     func(h *linkv1.Hello) { h.Token = "" },
		"long token":   func(h *linkv1.Hello) { h.Token = long },
		"no UID":       func(h *linkv1.Hello) { h.ClusterUid = "" },
		"long UID":     func(h *linkv1.Hello) { h.ClusterUid = long },
		"no instance":  func(h *linkv1.Hello) { h.Instance = "" },
		"long version": func(h *linkv1.Hello) { h.OperatorVersion = long },
	} {
		h := valid()
		change(h)
		refused := admission.Invalid(h)
		if refused == nil || strings.Contains(refused.GetMessage(), "s3cret") || strings.Contains(refused.GetMessage(), long) {
			t.Errorf("%s: %v", name, refused)
		}
	}
}

func TestTheRefusalOfAnotherClusterNamesBoth(t *testing.T) {
	if refused := admission.Bound("prod", "one", "one"); refused != nil {
		t.Error(refused)
	}
	refused := admission.Bound("prod", "one", "two")
	for _, part := range []string{"prod", "one", "two"} {
		if refused.GetReason() != linkv1.Reason_REASON_OTHER_CLUSTER || !strings.Contains(refused.GetMessage(), part) {
			t.Errorf("%q is missing in %v", part, refused)
		}
	}
}
