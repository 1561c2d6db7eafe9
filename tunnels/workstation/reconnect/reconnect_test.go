package reconnect_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/workstation/reconnect"
)

var (
	start  = time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
	policy = reconnect.DefaultPolicy()
	shop   = reconnect.Tunnel{Namespace: "shop", Name: "mine-cart"}
)

// up returns a Machine with a session.
func up(t *testing.T, wanted ...reconnect.Tunnel) *reconnect.Machine {
	t.Helper()
	c := reconnect.New(policy)
	c.Want(wanted)
	c.Begin(start)
	if s := c.Welcomed(start, 1); s.Declare == nil {
		t.Fatalf("Welcomed gave %+v, no declaration", s)
	}
	return c
}

func TestTheFirstConnectionHasSomeTime(t *testing.T) {
	c := reconnect.New(policy)
	if s := c.Begin(start); s.Dial != 1 {
		t.Fatalf("Begin gave %+v", s)
	}
	if s := c.Failed(start.Add(time.Second), 1, false, 1); s.End || s.At.IsZero() {
		t.Fatalf("a failure after a second gave %+v, no pause", s)
	}
	if s := c.Due(start.Add(2 * time.Second)); s.Dial != 2 {
		t.Fatalf("Due gave %+v", s)
	}
	if s := c.Failed(start.Add(policy.Patience), 2, false, 1); !s.End {
		t.Fatalf("a failure after %s gave %+v, no end", policy.Patience, s)
	}
}

func TestASessionWithADrainingProxyContinuesBesideTheNextAttempt(t *testing.T) {
	c := up(t, shop)
	if s := c.Leaving(start, 7); s != (reconnect.Step{}) {
		t.Fatalf("of another epoch: %+v", s)
	}
	if s := c.Leaving(start, 1); s.Dial != 2 || !s.Aside || s.Drop {
		t.Fatalf("Leaving gave %+v, no attempt beside the session", s)
	}
	if s := c.Lost(start, 1, true, 0); s != (reconnect.Step{}) {
		t.Fatalf("the end of the session disturbs the attempt: %+v", s)
	}
	if s := c.Failed(start, 2, false, 1); s.At != start.Add(policy.Shortest) {
		t.Fatalf("a failure gave %+v, no short pause", s)
	}
	if s := c.Due(start.Add(policy.Shortest)); s.Dial != 3 || s.Aside {
		t.Fatalf("Due gave %+v", s)
	}
	if s := c.Welcomed(start.Add(policy.Shortest), 3); len(s.Declare.GetTunnels()) != 1 {
		t.Fatalf("Welcomed gave %+v, no declaration", s)
	}
}

func TestAFinalFailureEndsOnlyAFirstConnection(t *testing.T) {
	c := reconnect.New(policy)
	c.Begin(start)
	if s := c.Failed(start, 1, true, 0); !s.End || c.Phase() != reconnect.Over {
		t.Fatalf("at first: %+v", s)
	}
	c = up(t)
	c.Lost(start, 1, true, 0)
	c.Due(start.Add(time.Second))
	if s := c.Failed(start.Add(time.Second), 2, true, 1); s.End || s.At != start.Add(time.Second+policy.Longest) {
		t.Fatalf("after a session: %+v; it should wait %s for a repair", s, policy.Longest)
	}
}

func TestPausesDoubleAndStayShortWhileACutIsFresh(t *testing.T) {
	c := up(t)
	now := start
	at := c.Lost(now, 1, true, 1).At
	var pauses []time.Duration
	for range 150 {
		pauses = append(pauses, at.Sub(now))
		now = at
		s := c.Due(now)
		at = c.Failed(now, s.Dial, false, 1).At
	}
	for i, want := range map[int]time.Duration{0: 100, 1: 200, 2: 400, 3: 500, 100: 500, 149: 5000} {
		if got := pauses[i]; got != want*time.Millisecond {
			t.Errorf("pause %d is %s, not %d ms", i, got, want)
		}
	}
	c.Welcomed(now, c.Due(at).Dial)
	if at := c.Lost(now, c.Epoch(), true, 1).At; at != now.Add(policy.Shortest) {
		t.Errorf("the next cut has a pause of %s at first", at.Sub(now))
	}
}

func TestADeclarationIsCompleteAndRepeated(t *testing.T) {
	c := up(t, shop)
	s := c.Want([]reconnect.Tunnel{shop, {Namespace: "shop", Name: "mine-api"}, shop})
	if d := s.Declare; d.GetRevision() != 2 || len(d.GetTunnels()) != 2 || d.GetTunnels()[0].GetName() != "mine-api" {
		t.Fatalf("Want gave %v", s.Declare)
	}
	if s := c.Want([]reconnect.Tunnel{{Namespace: "shop", Name: "mine-api"}, shop}); s.Declare != nil {
		t.Errorf("the same again gave %v", s.Declare)
	}
	c.Lost(start, 1, true, 0)
	if s := c.Want([]reconnect.Tunnel{shop}); s.Declare != nil {
		t.Errorf("without a session: %v", s.Declare)
	}
	c.Due(start.Add(time.Second))
	if d := c.Welcomed(start, 2).Declare; d.GetRevision() != 1 || len(d.GetTunnels()) != 1 {
		t.Errorf("the next connection declares %v", d)
	}
}

// A proxy ends the session of who declares more than it takes, and with it all that goes on there.
func TestNoMoreIsDeclaredThanAProxyTakes(t *testing.T) {
	var all []reconnect.Tunnel
	for n := range reconnect.MaxTunnels + 44 {
		all = append(all, reconnect.Tunnel{Namespace: "shop", Name: fmt.Sprintf("cart-%03d", n)})
	}
	c := up(t, shop)
	s := c.Want(all)
	if len(s.Declare.GetTunnels()) != reconnect.MaxTunnels || !c.Wants(all[reconnect.MaxTunnels-1]) || c.Wants(all[reconnect.MaxTunnels]) {
		t.Errorf("%d are declared", len(s.Declare.GetTunnels()))
	}
	if s := c.Want(all[:reconnect.MaxTunnels+1]); s.Declare != nil {
		t.Error("a tunnel beyond the limit causes another declaration")
	}
}

func TestOnlyTheAnswerToTheLastDeclarationCounts(t *testing.T) {
	c := up(t, shop)
	told := func(revision uint64, open bool) *tunnelv1.Declared {
		return &tunnelv1.Declared{Revision: revision, Tunnels: []*tunnelv1.TunnelState{{Namespace: "shop", Name: "mine-cart", Open: open}}}
	}
	c.Answered(1, told(1, true))
	if !c.Answer(shop).GetOpen() {
		t.Fatal("the answer was not taken")
	}
	c.Want([]reconnect.Tunnel{shop, {Namespace: "a", Name: "b"}})
	c.Answered(1, told(1, false))
	c.Answered(0, told(2, false))
	if !c.Answer(shop).GetOpen() {
		t.Error("an answer to an earlier declaration, or of an earlier connection, was taken")
	}
	c.Lost(start, 1, true, 0)
	if c.Answer(shop) != nil {
		t.Error("an answer outlived its session")
	}
}

// A session that lost a tunnel to another one gets it back once the other has ended, and not
// while the other runs or is away for a moment.
func TestATakenTunnelComesBack(t *testing.T) {
	other := reconnect.Tunnel{Namespace: "a", Name: "b"}
	c := up(t, shop, other)
	answer := func(revision uint64) reconnect.Step {
		return c.Answered(1, &tunnelv1.Declared{Revision: revision, Tunnels: []*tunnelv1.TunnelState{
			{Namespace: "a", Name: "b", Refused: &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_FORBIDDEN}},
			{Namespace: "shop", Name: "mine-cart", Refused: &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_TAKEN}}}})
	}
	if s := answer(1); s != (reconnect.Step{}) {
		t.Fatalf("the answer gave %+v", s)
	}
	nobody, somebody := func(reconnect.Tunnel) bool { return false }, func(reconnect.Tunnel) bool { return true }
	now := start
	for _, by := range []func(reconnect.Tunnel) bool{nobody, somebody, nobody, somebody} {
		if s := c.Brought(now, by); s != (reconnect.Step{}) {
			t.Fatalf("after %s it gave %+v", now.Sub(start), s)
		}
		now = now.Add(policy.TakeBack - time.Second)
	}
	c.Brought(now, nobody)
	s := c.Brought(now.Add(policy.TakeBack), nobody)
	if d := s.Declare; d.GetRevision() != 2 || len(d.GetTunnels()) != 1 || d.GetTunnels()[0].GetName() != "b" {
		t.Fatalf("it is left out by %+v", s)
	}
	if s := c.Brought(now.Add(9*policy.TakeBack), nobody); s != (reconnect.Step{}) {
		t.Errorf("while that has no answer it gave %+v", s)
	}
	if s := c.Answered(1, &tunnelv1.Declared{Revision: 2}); s.Declare.GetRevision() != 3 || len(s.Declare.GetTunnels()) != 2 {
		t.Errorf("it is named again by %+v", s)
	}
	// A session that ends in between begins with all of them.
	answer(3)
	c.Brought(now, somebody)
	c.Brought(now, nobody)
	if s := c.Brought(now.Add(policy.TakeBack), nobody); len(s.Declare.GetTunnels()) != 1 {
		t.Fatalf("it is left out by %+v", s)
	}
	c.Lost(now, 1, true, 0)
	c.Due(now.Add(time.Minute))
	if s := c.Welcomed(now, 2); len(s.Declare.GetTunnels()) != 2 {
		t.Errorf("the next session declares %+v", s.Declare)
	}
}

// Two sessions that are not seen to use a tunnel take it from each other ever more seldom.
func TestTwoCompetingSessionsBackOff(t *testing.T) {
	c, revision, taken, now := up(t, shop), uint64(1), 0, start
	nobody := func(reconnect.Tunnel) bool { return false }
	for now.Before(start.Add(10 * time.Minute)) {
		c.Answered(1, &tunnelv1.Declared{Revision: revision, Tunnels: []*tunnelv1.TunnelState{
			{Namespace: "shop", Name: "mine-cart", Refused: &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_TAKEN}}}})
		if s := c.Brought(now, nobody); s.Declare != nil {
			taken, revision = taken+1, c.Answered(1, &tunnelv1.Declared{Revision: s.Declare.GetRevision()}).Declare.GetRevision()
		}
		now = now.Add(time.Second)
	}
	if taken < 4 || taken > 16 {
		t.Errorf("in ten minutes it was taken back %d times", taken)
	}
}

func TestAfterSleepNothingOldIsUsed(t *testing.T) {
	c := up(t)
	if s := c.Slept(start, policy.MaxGap); s != (reconnect.Step{}) {
		t.Errorf("a short gap gave %+v", s)
	}
	if s := c.Slept(start, policy.MaxGap+1); !s.Drop || s.Dial != 2 {
		t.Errorf("a long gap gave %+v", s)
	}
	if s := c.Welcomed(start, 1); s != (reconnect.Step{}) || c.Phase() == reconnect.Up {
		t.Errorf("the old attempt came up: %+v", s)
	}
}

func TestAnotherNetworkEndsTheWaitingOnly(t *testing.T) {
	c := up(t)
	if s := c.Moved(start); s != (reconnect.Step{}) {
		t.Errorf("with a session: %+v; its own pings check it", s)
	}
	c.Lost(start, 1, true, 1)
	if s := c.Moved(start); s.Drop || s.Dial != 2 {
		t.Errorf("while waiting: %+v", s)
	}
	if s := c.Moved(start); !s.Drop || s.Dial != 3 {
		t.Errorf("while dialling: %+v", s)
	}
}

// Whatever happens in whatever order, epochs grow, one attempt or session is there at a time,
// the first declaration of each connection is whole, and a pause is within its bounds.
func TestRandomEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, now := reconnect.New(policy), start
		var last uint64
		live := 0 // attempts and sessions that were begun and not ended
		names := []string{"a", "b", "c"}
		var wanted []string
		check := func(s reconnect.Step) {
			if s.Drop {
				live--
			}
			if s.Dial != 0 {
				if live++; live != 1 {
					t.Fatalf("%d at once", live)
				}
				if s.Dial <= last {
					t.Fatalf("epoch %d after %d", s.Dial, last)
				}
				last = s.Dial
			}
			if pause := s.At.Sub(now); !s.At.IsZero() && (pause < 0 || pause > policy.Longest) {
				t.Fatalf("a pause of %s", pause)
			}
			if s.Declare != nil && len(s.Declare.GetTunnels()) != len(wanted) {
				t.Fatalf("declared %v, wanted are %v", s.Declare, wanted)
			}
		}
		check(c.Begin(now))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(6*time.Second)).Draw(t, "passes")))
			epoch := last - rapid.SampledFrom([]uint64{0, 0, 0, 1}).Draw(t, "stale")
			before, current := c.Phase(), epoch == last
			chance := rapid.Float64Range(0, 1).Draw(t, "chance")
			switch rapid.IntRange(0, 6).Draw(t, "event") {
			case 0:
				check(c.Welcomed(now, epoch))
			case 1:
				if before == reconnect.Dialling && current {
					live--
				}
				check(c.Failed(now, epoch, rapid.Bool().Draw(t, "final"), chance))
			case 2:
				if before == reconnect.Up && current {
					live--
				}
				check(c.Lost(now, epoch, rapid.Bool().Draw(t, "comeBack"), chance))
			case 3:
				check(c.Due(now))
			case 4:
				check(c.Slept(now, time.Minute))
			case 5:
				check(c.Moved(now))
			case 6:
				wanted = names[:rapid.IntRange(0, 3).Draw(t, "wanted")]
				var list []reconnect.Tunnel
				for _, n := range wanted {
					list = append(list, reconnect.Tunnel{Namespace: "ns", Name: n})
				}
				check(c.Want(list))
			}
		}
	})
}
