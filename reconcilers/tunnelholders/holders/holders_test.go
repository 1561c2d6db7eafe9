package holders_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/reconcilers/tunnelholders/holders"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

var workload = holders.Workload{Namespace: "ns", Name: "w", UID: "u"}

// tunnel is one that a session holds since so many seconds.
func tunnel(session string, epoch uint64, since int) *tunnelv1.Tunnel {
	return &tunnelv1.Tunnel{
		Namespace: "ns", Name: "w", Uid: "u", Session: session, Epoch: epoch, User: "user-" + session, Connected: true,
		Since: timestamppb.New(now.Add(-time.Duration(since) * time.Second)),
	}
}

// proxy returns a proxy with a report just now.
func proxy(pod string, tunnels ...*tunnelv1.Tunnel) holders.Proxy {
	return holders.Proxy{Pod: pod, IP: "10.0.0." + pod, Life: holders.Life{Begun: now.Add(-time.Hour), Heard: now}, Tunnels: tunnels}
}

// silent returns the proxy as lost.
func silent(p holders.Proxy) holders.Proxy {
	p.Life.Heard = now.Add(-holders.Silence)
	return p
}

// long makes it a proxy that was lost so long ago that its tunnels are free.
func long(p holders.Proxy) holders.Proxy {
	p.Life.Heard = now.Add(-holders.Silence - holders.Reserved)
	return p
}

// ordered is a tunnel of a session of a user that began so many seconds ago.
func ordered(user string, t *tunnelv1.Tunnel, began int) *tunnelv1.Tunnel {
	t.User, t.Order = user, timestamppb.New(now.Add(-time.Duration(began)*time.Second))
	return t
}

func takes(t *tunnelv1.Tunnel) *tunnelv1.Tunnel { t.Take = true; return t }

func free(t *tunnelv1.Tunnel) *tunnelv1.Tunnel { t.Connected, t.Free = false, true; return t }

// A session that comes back, here with an earlier time at another proxy than a waiting one of
// another user, finds its tunnel where the last judgement had it.
func TestATunnelStaysWithItsHolder(t *testing.T) {
	before := holders.Judge([]holders.Proxy{proxy("1", tunnel("x", 1, 9))}, holders.Judgement{}, now)
	j := holders.Judge([]holders.Proxy{proxy("2", tunnel("y", 1, 5)), proxy("3", tunnel("x", 2, 4))}, before, now)
	if h := j.Held[workload]; h.Pod != "3" || h.Tunnel.GetSession() != "x" {
		t.Errorf("held by %+v", h)
	}
	if h := j.Held[workload].Elsewhere(); h.GetUser() != "user-x" || h.GetUid() != "u" || h.GetBy() != "user-x, through pod 3" {
		t.Errorf("other proxies get %v", h)
	}
	later := holders.Judge([]holders.Proxy{proxy("2", tunnel("y", 1, 5)), proxy("3", free(tunnel("x", 2, 4)))}, j, now)
	if h := later.Held[workload]; h.Pod != "2" {
		t.Errorf("once it is free it is held by %+v", h)
	}
}

func TestTunnelHolder(t *testing.T) {
	other := tunnel("x", 1, 1)
	other.Uid = "former"
	down := tunnel("x", 1, 5)
	down.Connected = false
	for name, tt := range map[string]struct {
		proxies []holders.Proxy
		// holder is pod/session/epoch, and whether it is connected; losers the same for those that are
		// notified.
		holder    string
		connected bool
		losers    string
	}{
		"nobody":                                    {[]holders.Proxy{proxy("1")}, "", false, ""},
		"one":                                       {[]holders.Proxy{proxy("1", tunnel("x", 1, 5)), proxy("2")}, "1/x/1", true, ""},
		"one without its workstation":               {[]holders.Proxy{proxy("1", down)}, "1/x/1", false, ""},
		"of two users the first":                    {[]holders.Proxy{proxy("1", tunnel("x", 9, 5)), proxy("2", tunnel("y", 1, 4))}, "1/x/9", true, "2/y/1"},
		"of two users the one that took it":         {[]holders.Proxy{proxy("1", tunnel("x", 9, 5)), proxy("2", takes(tunnel("y", 1, 4)))}, "2/y/1", true, "1/x/9"},
		"one that took it before is taken from":     {[]holders.Proxy{proxy("1", takes(tunnel("x", 9, 3))), proxy("2", takes(tunnel("y", 1, 4)))}, "1/x/9", true, "2/y/1"},
		"any user gets one that is free":            {[]holders.Proxy{proxy("1", free(tunnel("x", 9, 5))), proxy("2", tunnel("y", 1, 4))}, "2/y/1", true, "1/x/9"},
		"one that was lost a moment ago is not":     {[]holders.Proxy{proxy("1", down), proxy("2", tunnel("y", 1, 4))}, "1/x/1", false, "2/y/1"},
		"that of a proxy lost for long is free":     {[]holders.Proxy{long(proxy("1", tunnel("x", 9, 5))), proxy("2", tunnel("y", 1, 4))}, "2/y/1", true, "1/x/9"},
		"of one session the greater epoch":          {[]holders.Proxy{proxy("1", tunnel("x", 1, 1)), proxy("2", tunnel("x", 2, 5))}, "2/x/2", true, "1/x/1"},
		"an epoch counts in its session alone":      {[]holders.Proxy{proxy("1", tunnel("x", 1, 1)), proxy("2", tunnel("x", 2, 5)), proxy("3", takes(tunnel("y", 1, 3)))}, "3/y/1", true, "1/x/1 2/x/2"},
		"two at one proxy":                          {[]holders.Proxy{proxy("1", tunnel("x", 1, 5), tunnel("y", 1, 4))}, "1/x/1", true, "1/y/1"},
		"a connection that is told of twice":        {[]holders.Proxy{proxy("1", tunnel("x", 1, 5), tunnel("x", 1, 5))}, "1/x/1", true, ""},
		"at the same moment, always the same":       {[]holders.Proxy{proxy("1", tunnel("y", 1, 5)), proxy("2", tunnel("x", 1, 5))}, "2/x/1", true, "1/y/1"},
		"one of a former object of the name":        {[]holders.Proxy{proxy("1", tunnel("x", 1, 5)), proxy("2", other)}, "1/x/1", true, ""},
		"one at a proxy that is gone":               {[]holders.Proxy{silent(proxy("1", tunnel("x", 1, 5)))}, "1/x/1", false, ""},
		"no other user takes it because of that":    {[]holders.Proxy{silent(proxy("1", tunnel("x", 1, 5))), proxy("2", tunnel("y", 1, 4))}, "1/x/1", false, "2/y/1"},
		"its session comes back at another":         {[]holders.Proxy{silent(proxy("1", tunnel("x", 1, 5))), proxy("2", tunnel("x", 2, 1))}, "2/x/2", true, "1/x/1"},
		"what names no external workload is nobody": {[]holders.Proxy{proxy("1", &tunnelv1.Tunnel{Session: "x", Connected: true})}, "", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // in whatever order maps are read
				j := holders.Judge(tt.proxies, holders.Judgement{}, now)
				h, ok := j.Held[workload]
				got := ""
				if ok {
					got = h.Pod + "/" + h.Tunnel.GetSession() + "/" + string('0'+rune(h.Tunnel.GetEpoch()))
				}
				if got != tt.holder || ok && (h.Connected() != tt.connected || h.IP != "10.0.0."+h.Pod) {
					t.Fatalf("held by %s, %+v", got, h)
				}
				var losers []string
				for _, p := range tt.proxies {
					for _, taken := range j.Taken[p.Pod] {
						losers = append(losers, p.Pod+"/"+taken.GetSession()+"/"+string('0'+rune(taken.GetEpoch())))
						if want := "user-" + h.Tunnel.GetSession() + ", through pod " + h.Pod; taken.GetBy() != want || taken.GetNamespace() != "ns" || taken.GetName() != "w" ||
							taken.GetSameSession() != (taken.GetSession() == h.Tunnel.GetSession()) {
							t.Errorf("%s is told %v, not %s", p.Pod, taken, want)
						}
					}
				}
				if got := strings.Join(losers, " "); got != tt.losers {
					t.Fatalf("told are %q, not %q", got, tt.losers)
				}
			}
		})
	}
}

// A user cannot keep the tunnel of another user with a session of the same name.
func TestASessionIsOneOfAUser(t *testing.T) {
	ann, bob := tunnel("x", 1, 5), tunnel("x", 99, 1)
	bob.User = "bob"
	j := holders.Judge([]holders.Proxy{proxy("1", ann), proxy("2", bob)}, holders.Judgement{}, now)
	if h := j.Held[workload]; h.Pod != "1" || len(j.Taken["2"]) != 1 || j.Taken["2"][0].GetSameSession() {
		t.Errorf("held by %+v, and told are %v", h, j.Taken)
	}
}

// Of a user's sessions, the one that began later holds a tunnel at whatever proxy, however late the
// other declares it again.
func TestTheLaterSessionOfAUserHoldsATunnel(t *testing.T) {
	early, late := ordered("ada", tunnel("early", 2, 1), 60), ordered("ada", tunnel("late", 1, 20), 30)
	for what, before := range map[string]holders.Judgement{
		"at first":               {},
		"where it was before":    holders.Judge([]holders.Proxy{proxy("1", late)}, holders.Judgement{}, now),
		"where the other was":    holders.Judge([]holders.Proxy{proxy("2", early)}, holders.Judgement{}, now),
		"where another user was": holders.Judge([]holders.Proxy{proxy("3", free(tunnel("x", 1, 90)))}, holders.Judgement{}, now),
	} {
		j := holders.Judge([]holders.Proxy{proxy("2", early), proxy("1", late)}, before, now)
		held := j.Held[workload].Elsewhere()
		if held.GetSession() != "late" || !held.GetOrder().AsTime().Equal(late.Order.AsTime()) || len(j.Taken["2"]) != 1 {
			t.Errorf("%s: held is %v, and the losers are %v", what, held, j.Taken)
		}
	}
}

// During an upgrade, sessions at a proxy that reports no order and at one that does are compared by the time that
// both report.
func TestAnEarlierProxyReportsNoOrder(t *testing.T) {
	former, late := tunnel("former", 1, 20), ordered("ada", tunnel("late", 1, 5), 60)
	former.User = "ada"
	for what, before := range map[string]holders.Judgement{
		"at first":               {},
		"where the former was":   holders.Judge([]holders.Proxy{proxy("1", former)}, holders.Judgement{}, now),
		"where it was before":    holders.Judge([]holders.Proxy{proxy("2", late)}, holders.Judgement{}, now),
		"where another user was": holders.Judge([]holders.Proxy{proxy("3", free(tunnel("x", 1, 90)))}, holders.Judgement{}, now),
	} {
		if j := holders.Judge([]holders.Proxy{proxy("1", former), proxy("2", late)}, before, now); j.Held[workload].Pod != "2" {
			t.Errorf("%s: held by %v", what, j.Held[workload].Tunnel)
		}
	}
}

func TestDeletedProxyHoldsNoTunnel(t *testing.T) {
	at := func(seconds float64) time.Time { return now.Add(time.Duration(seconds * float64(time.Second))) }
	for name, tt := range map[string]struct {
		life holders.Life
		end  time.Time
	}{
		"it has never told anything":           {holders.Life{Begun: now}, at(5)},
		"it has told something":                {holders.Life{Begun: at(-60), Heard: now}, at(5)},
		"its stream broke":                     {holders.Life{Begun: at(-60), Heard: now, Broken: at(0.5)}, at(1.5)},
		"its stream broke when it was silent":  {holders.Life{Begun: at(-60), Heard: now, Broken: at(4.5)}, at(5)},
		"its stream never came to be":          {holders.Life{Begun: now, Broken: at(0.1)}, at(5)},
		"it was asked again after a long time": {holders.Life{Begun: at(-60), Heard: at(-30), Broken: at(-29)}, at(-28)},
	} {
		if got := tt.life.End(); !got.Equal(tt.end) {
			t.Errorf("%s: gone from %s on, not %s", name, got, tt.end)
		}
		if tt.life.Gone(tt.end.Add(-1)) || !tt.life.Gone(tt.end) {
			t.Errorf("%s: the end is not the end", name)
		}
		if awaited := tt.life.Awaited(tt.end.Add(-1)); awaited != tt.life.Heard.IsZero() || tt.life.Awaited(tt.end) {
			t.Errorf("%s: awaited: %t", name, awaited)
		}
	}
	a, b := proxy("1"), proxy("2")
	b.Life.Heard = now.Add(-time.Second)
	if turns := holders.Judge([]holders.Proxy{a, b, silent(proxy("3"))}, holders.Judgement{}, now).Turns; !turns.Equal(b.Life.End()) {
		t.Errorf("the next is gone at %s, not %s", turns, b.Life.End())
	}
	if turns := holders.Judge([]holders.Proxy{long(a)}, holders.Judgement{}, now).Turns; !turns.IsZero() {
		t.Errorf("nobody is left, and the next is gone at %s", turns)
	}
}

func TestReportsAboutAHolder(t *testing.T) {
	base := func() holders.Holder {
		return holders.Holder{Pod: "1", IP: "i", Tunnel: tunnel("x", 1, 5)}
	}
	for name, tt := range map[string]struct {
		change func(h *holders.Holder)
		same   bool
	}{
		"nothing":          {func(*holders.Holder) {}, true},
		"when it is heard": {func(h *holders.Holder) { h.Tunnel.Heard = timestamppb.New(now) }, true},
		"the pod":          {func(h *holders.Holder) { h.Pod = "2" }, false},
		"its address":      {func(h *holders.Holder) { h.IP = "j" }, false},
		"the proxy's end":  {func(h *holders.Holder) { h.Gone = true }, false},
		"the workstation":  {func(h *holders.Holder) { h.Tunnel.Connected = false }, false},
		"the epoch":        {func(h *holders.Holder) { h.Tunnel.Epoch = 2 }, false},
		"the session":      {func(h *holders.Holder) { h.Tunnel.Session = "y" }, false},
		"the user":         {func(h *holders.Holder) { h.Tunnel.User = "another" }, false},
		"since when":       {func(h *holders.Holder) { h.Tunnel.Since = timestamppb.New(now) }, false},
		"a port":           {func(h *holders.Holder) { h.Tunnel.Ports = []*tunnelv1.ProxyPort{{Baseline: 1, Proxy: 2}} }, false},
		"its order":        {func(h *holders.Holder) { h.Tunnel.Order = timestamppb.New(now) }, false},
		"a label":          {func(h *holders.Holder) { h.Tunnel.Labels = map[string]string{"host": "h"} }, false},
	} {
		h := base()
		if tt.change(&h); h.Same(base()) != tt.same {
			t.Errorf("%s changes: the same is %t", name, !tt.same)
		}
	}
}
