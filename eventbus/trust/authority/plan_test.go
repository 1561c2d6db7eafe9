package authority

import (
	"bytes"
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var (
	begin  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	policy = Policy{Authority: 30 * 24 * time.Hour, Leaf: 24 * time.Hour, Settle: time.Minute,
		Hosts: []string{"webhook.signadot.svc", "127.0.0.1"}}
)

func must(t interface{ Fatal(...any) }, s State, err error) State {
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPlan(t *testing.T) {
	fresh, err := change(begin, State{}, []Step{Begin, Issue}, policy)
	fresh = must(t, fresh, err)
	announced, err := change(begin.Add(15*24*time.Hour), fresh, []Step{Announce, Issue}, policy)
	announced = must(t, announced, err)
	noted := announced
	noted.NextPublished = begin.Add(15 * 24 * time.Hour)
	promoted, err := change(begin.Add(16*24*time.Hour), noted, []Step{Promote, Issue}, policy)
	promoted = must(t, promoted, err)
	otherHost := policy
	otherHost.Hosts = []string{"elsewhere.svc"}
	at := func(days float64) time.Time { return begin.Add(time.Duration(days * 24 * float64(time.Hour))) }

	cases := map[string]struct {
		now       time.Time
		state     State
		published []*x509.Certificate
		policy    Policy
		want      []Step
	}{
		"nothing there: all is made and published": {at(0), State{}, nil, policy, []Step{Begin, Issue, Publish}},
		"all is well: nothing to do":               {at(0.1), fresh, bundle(fresh), policy, nil},
		"the bundle was never published":           {at(0.1), fresh, nil, policy, []Step{Publish}},
		"somebody put an old bundle back":          {at(16.1), promoted, bundle(fresh), policy, []Step{Publish}},
		"half a leaf is spent":                     {at(0.51), fresh, bundle(fresh), policy, []Step{Issue}},
		"the leaf is for another host":             {at(0.1), fresh, bundle(fresh), otherHost, []Step{Issue}},
		"half an authority is spent":               {at(15), fresh, bundle(fresh), policy, []Step{Announce, Issue, Publish}},
		"the next is made, not published":          {at(15.001), announced, bundle(fresh), policy, []Step{Publish}},
		"the next is published":                    {at(15.001), announced, bundle(announced), policy, []Step{Note}},
		"the next is published, not long":          {at(15).Add(30 * time.Second), noted, bundle(noted), policy, nil},
		"the next is published for long":           {at(15).Add(time.Minute), noted, bundle(noted), policy, []Step{Promote, Issue, Publish}},
		"two leaf lives after a change, the old one goes": {at(18), promoted, bundle(promoted), policy,
			[]Step{Issue, Forget, Publish}},
		"before that, it stays": {at(16.4), promoted, bundle(promoted), policy, nil},
		"the authority expired while all slept": {at(31), fresh, bundle(fresh), policy,
			[]Step{Begin, Issue, Publish}},
		"the next takes over from an expired one": {at(31), announced, bundle(fresh), policy,
			[]Step{Promote, Issue, Publish}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Plan(c.now, Observed{State: c.state, Published: c.published, Registered: true}, c.policy)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("nobody to tell: nothing is published", func(t *testing.T) {
		if got := Plan(at(0), Observed{}, policy); !slices.Equal(got, []Step{Begin, Issue}) {
			t.Errorf("got %q", got)
		}
	})
}

// world is a cluster as values: the stored, published and served certificates.
type world struct {
	policy        Policy
	now           time.Time
	data          map[string][]byte
	published     []*x509.Certificate
	since         map[string]time.Time // when an authority was first published
	served        [2]*Pair
	looked        [2]time.Time
	began, passed int
}

// look is what a Keeper does, on values. Where refused is true the API server
// takes the Secret and not the bundle.
func (w *world) look(t *rapid.T, replica int, refused bool) {
	for range 3 {
		state := read(w.data)
		steps := Plan(w.now, Observed{State: state, Published: w.published, Registered: true}, w.policy)
		if slices.Contains(steps, Begin) {
			w.began++
		} else if slices.Contains(steps, Promote) {
			since, published := w.since[string(state.Next.Cert.Raw)]
			late := !w.now.Before(state.Current.Cert.NotAfter)
			if !late && (!published || w.now.Before(since.Add(w.policy.Settle))) {
				t.Fatalf("promoted at %s an authority published %v at %s", w.now, published, since)
			}
			w.passed++
		}
		next, err := change(w.now, state, steps, w.policy)
		if err != nil {
			t.Fatal(err)
		}
		w.data = write(next)
		w.served[replica], w.looked[replica] = next.Leaf, w.now
		if slices.Contains(steps, Publish) {
			if refused {
				return
			}
			w.published = bundle(read(w.data))
			for _, c := range w.published {
				if _, known := w.since[string(c.Raw)]; !known {
					w.since[string(c.Raw)] = w.now
				}
			}
		}
		if steps == nil {
			return
		}
	}
	t.Fatal("three looks were not enough to come to rest")
}

func (w *world) verify(t *rapid.T, replica int) {
	roots := x509.NewCertPool()
	for _, c := range w.published {
		roots.AddCert(c)
	}
	leaf := w.served[replica].Cert
	for _, host := range w.policy.Hosts {
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: w.now}); err != nil {
			t.Fatalf("%s: replica %d: %v", w.now, replica, err)
		}
	}
}

func TestNoCallFailsWhileReplicasLookNowAndThen(t *testing.T) {
	policy := policy
	policy.Authority = 8 * policy.Leaf // short: many changes in one run
	passed := 0
	rapid.Check(t, func(t *rapid.T) {
		w := &world{now: begin, policy: policy, since: map[string]time.Time{}}
		w.look(t, 0, false)
		w.look(t, 1, false)
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			unit := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, "unit")
			return time.Duration(rapid.IntRange(1, 11).Draw(t, "n")) * unit
		}), 60, 120).Draw(t, "steps")
		refused := false
		for i, d := range steps {
			w.now = w.now.Add(d)
			// A replica that has not looked for half a leaf's life looks now: it
			// would be a day without a single look otherwise, in which it is down.
			for replica := range w.served {
				if i%2 == replica || w.now.Sub(w.looked[replica]) > policy.Leaf/2 {
					refused = !refused && rapid.Bool().Draw(t, "refused") // not for days on end
					w.look(t, replica, refused)
				}
			}
			w.verify(t, 0)
			w.verify(t, 1)
		}
		if w.began != 1 {
			t.Fatalf("began %d times, want once: a new beginning has no overlap", w.began)
		}
		passed += w.passed
	})
	if passed == 0 {
		t.Error("in no run did an authority change: nothing was shown")
	}
}

func TestTheSecretKeepsTheState(t *testing.T) {
	s, err := change(begin, State{}, []Step{Begin, Announce, Note, Promote, Announce, Note, Issue}, policy)
	s = must(t, s, err)
	data := write(s)
	if diff := cmp.Diff(data, write(read(data))); diff != "" {
		t.Error(diff)
	}
	for _, a := range read(data).Retired {
		if a.KeyPEM != nil {
			t.Error("the key of a retired authority is kept")
		}
	}
	if len(read(data).Retired) != 1 || read(data).NextPublished != begin {
		t.Errorf("read back: %+v", read(data))
	}
}

func TestADamagedSecretIsReplaced(t *testing.T) {
	s, err := change(begin, State{}, []Step{Begin, Issue}, policy)
	whole := write(must(t, s, err))
	for _, key := range []string{dataCurrentCert, dataCurrentKey} {
		data := map[string][]byte{}
		for k, v := range whole {
			data[k] = v
		}
		data[key] = bytes.ToUpper(data[key])
		got := Plan(begin, Observed{State: read(data), Registered: true}, policy)
		if !slices.Equal(got, []Step{Begin, Issue, Publish}) {
			t.Errorf("with a damaged %s: %q", key, got)
		}
	}
	whole[dataLeafKey] = []byte("lost")
	if got := Plan(begin, Observed{State: read(whole)}, policy); !slices.Equal(got, []Step{Issue}) {
		t.Errorf("with a damaged leaf: %q", got)
	}
}

func TestAPolicyThatLeavesNoOverlapIsRefused(t *testing.T) {
	p := policy
	p.Leaf = 20 * 24 * time.Hour
	if err := (Config{Policy: p}).Validate(); err == nil {
		t.Error("taken")
	}
}
