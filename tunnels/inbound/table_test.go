package inbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/cluster"
	"switchyard.dev/tunnels/relay"
)

// station is a workstation that records requests to connect, and refuses them.
type station struct {
	mu    sync.Mutex
	asked []*tunnelv1.Inbound
	lost  []string
}

// Connect implements Workstation.
func (s *station) Connect(_ context.Context, to *tunnelv1.Inbound) (relay.Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, to)
	return nil, errors.New("it refuses")
}

// Heard implements Workstation.
func (*station) Heard() time.Time { return time.Now() }

// NotifyLost implements Workstation.
func (s *station) NotifyLost(key Key, by string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = append(s.lost, key.String()+" to "+by)
}

// heard returns what a workstation was asked for, and has lost.
func (s *station) heard() (asked, lost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked), len(s.lost)
}

// nothing is a Counts.
type nothing struct{}

// Begun implements Counts.
func (nothing) Begun(audit.Direction) func() { return func() {} }

func newTable(t *testing.T) (*Table, *audit.Log) {
	t.Helper()
	log, err := audit.Open(audit.Config{Dir: t.TempDir(), Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	table, err := New(Config{Audit: log, Counts: nothing{}, Host: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Close)
	return table, log
}

// holds has a workstation hold port 80 of a workload, and returns where that is.
func holds(t *testing.T, table *Table, h *Holder, uid string) string {
	t.Helper()
	if refused := h.Hold(cluster.Workload{Namespace: "shop", Name: "cart", UID: uid, Sandbox: "s"}, []int32{80}); refused != nil {
		t.Fatal(refused)
	}
	all, _ := table.Tunnels()
	if len(all) != 1 || all[0].Uid != uid || len(all[0].Ports) != 1 {
		t.Fatalf("the table has %v", all)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(all[0].Ports[0].Proxy)))
}

// A workload that was deleted and created again is another one: requests for the first one must
// not reach the ports of the second.
func TestARecreatedWorkloadHasOtherPorts(t *testing.T) {
	table, _ := newTable(t)
	h := table.Join(Owner{User: "ada", Session: "s", Epoch: 1}, &station{})
	before := holds(t, table, h, "first")
	if now := holds(t, table, h, "second"); now == before {
		t.Errorf("both have port %s", now)
	}
	if c, err := net.Dial("tcp", before); err == nil {
		_ = c.Close()
		t.Error("the port of the deleted workload is open")
	}
}

// No connection is forwarded to a workstation without its record.
func TestAConnectionWithoutARecordReachesNoWorkstation(t *testing.T) {
	table, log := newTable(t)
	s := &station{}
	at := holds(t, table, table.Join(Owner{User: "ada", Session: "s", Epoch: 1}, s), "u")
	ends := func() {
		t.Helper()
		c, err := net.Dial("tcp", at)
		if errors.Is(err, syscall.ECONNRESET) {
			return // The end may be there before the connection is.
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.ReadAll(c); err == nil {
			t.Error("a connection without a workstation ends well")
		}
	}
	table.cfg.User = func(from string) string { return "the user at " + from }
	ends()
	wait.Eventually(t, time.Minute, "the workstation is asked", func() error {
		if asked, _ := s.heard(); asked != 1 {
			return errors.New("it is not")
		}
		return nil
	})
	if one := s.asked[0]; one.User != "the user at "+one.From || one.From == "" {
		t.Errorf("the workstation gets %v", one)
	}
	log.Close()
	ends()
	if asked, _ := s.heard(); asked != 1 {
		t.Errorf("the workstation was asked %d times, once without a record", asked)
	}
}

// A session loses a tunnel when the report is about that session, and not when it is about an
// earlier connection of it.
func TestATunnelTakenElsewhereIsTakenFromItsHolder(t *testing.T) {
	for what, c := range map[string]struct {
		taken *tunnelv1.Taken
		loses bool
	}{
		"his":                      {&tunnelv1.Taken{Namespace: "shop", Name: "cart", Session: "s", Epoch: 2}, true},
		"a later one of his":       {&tunnelv1.Taken{Namespace: "shop", Name: "cart", Session: "s", Epoch: 3}, true},
		"an earlier one of his":    {&tunnelv1.Taken{Namespace: "shop", Name: "cart", Session: "s", Epoch: 1}, false},
		"another session's":        {&tunnelv1.Taken{Namespace: "shop", Name: "cart", Session: "other", Epoch: 9}, false},
		"that of another workload": {&tunnelv1.Taken{Namespace: "bank", Name: "cart", Session: "s", Epoch: 2}, false},
	} {
		table, _ := newTable(t)
		s := &station{}
		h := table.Join(Owner{User: "ada", Session: "s", Epoch: 2}, s)
		holds(t, table, h, "u")
		table.RecordTaken(c.taken)
		if _, lost := s.heard(); h.Holds(Key{"shop", "cart"}) == c.loses || (lost == 1) != c.loses {
			t.Errorf("%s: it is held: %t, and %d were lost", what, h.Holds(Key{"shop", "cart"}), lost)
		}
	}
}

// A connection that is over while its workstation is asked about holds nothing afterwards.
func TestADisconnectedHolderHoldsNoTunnels(t *testing.T) {
	table, _ := newTable(t)
	h := table.Join(Owner{User: "ada", Session: "s", Epoch: 1}, &station{})
	h.Disconnect()
	if refused := h.Hold(cluster.Workload{Namespace: "shop", Name: "cart", UID: "u", Sandbox: "s"}, []int32{80}); refused.GetReason() != tunnelv1.Reason_REASON_UNAVAILABLE {
		t.Errorf("a disconnected holder gets %v", refused)
	}
	if all, _ := table.Tunnels(); len(all) != 0 {
		t.Errorf("there are %v", all)
	}
}

// A tunnel without a workstation is removed with its workload; one that is held is not.
func TestATunnelWithoutAWorkstationIsRemovedWithItsWorkload(t *testing.T) {
	table, _ := newTable(t)
	h := table.Join(Owner{User: "ada", Session: "s", Epoch: 1}, &station{})
	at := holds(t, table, h, "u")
	gone := func(key Key, uid string) bool { return key != (Key{"shop", "cart"}) || uid != "u" }
	table.Prune(gone)
	if !h.Holds(Key{"shop", "cart"}) {
		t.Fatal("a tunnel that is held was forgotten")
	}
	h.Disconnect()
	table.Prune(func(Key, string) bool { return true })
	if all, _ := table.Tunnels(); len(all) != 1 {
		t.Fatalf("a tunnel with an existing workload was removed: %v", all)
	}
	table.Prune(gone)
	if all, _ := table.Tunnels(); len(all) != 0 {
		t.Errorf("there are %v", all)
	}
	if c, err := net.Dial("tcp", at); err == nil {
		_ = c.Close()
		t.Error("its port is open")
	}
}

// taking is a workstation that takes every connection and sends nothing.
type taking struct{ station }

// Connect implements Workstation.
func (*taking) Connect(context.Context, *tunnelv1.Inbound) (relay.Stream, error) {
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }() // until it is closed
	return relay.Of(near), nil
}

// A pod with many connections to a workstation loses its own idle ones, the one that is idle longest
// first, and no other pod does.
func TestIdleConnectionsOfASourceAreBounded(t *testing.T) {
	table, _ := newTable(t)
	table.sources.each, table.sources.after = 4, 20*time.Millisecond
	at := holds(t, table, table.Join(Owner{User: "ada", Session: "s", Epoch: 1, Via: "carrier"}, &taking{}), "1")
	from := func(n byte) net.Conn {
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, n)}}).Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	open := func(conn net.Conn) bool {
		_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := conn.Read(make([]byte, 1))
		timeout := net.Error(nil)
		return errors.As(err, &timeout) && timeout.Timeout()
	}
	other := from(2)
	var many []net.Conn
	for range 12 {
		many = append(many, from(3))
		time.Sleep(50 * time.Millisecond) // by then it is idle
	}
	wait.Eventually(t, time.Minute, "four of them are left", func() error {
		left := 0
		for _, conn := range many {
			if open(conn) {
				left++
			}
		}
		if left != 4 {
			return fmt.Errorf("%d are", left)
		}
		return nil
	})
	if !open(other) || !open(many[11]) {
		t.Error("the connection of another pod, or the newest, was closed")
	}
}

// A live tunnel does not move to another user's workstation, unless that user takes it. The same
// user's next session has it at once.
func TestALiveTunnelOfAnotherUserIsNotMoved(t *testing.T) {
	table, _ := newTable(t)
	ada, again, bob := &station{}, &station{}, &station{}
	cart := cluster.Workload{Namespace: "shop", Name: "cart", UID: "u", Sandbox: "s"}
	first := table.Join(Owner{User: "ada", Session: "s", Epoch: 1, Labels: map[string]string{"host": "laptop"}}, ada)
	holds(t, table, first, "u")
	bobs := table.Join(Owner{User: "bob", Session: "s", Epoch: 1}, bob)
	refused := bobs.Hold(cart, []int32{80})
	if refused.GetReason() != tunnelv1.Reason_REASON_TAKEN || !strings.Contains(refused.GetMessage(), "ada at laptop") {
		t.Errorf("Bob is answered %v", refused)
	}
	if _, lost := ada.heard(); lost > 0 || !first.Holds(Key{"shop", "cart"}) || bobs.Holds(Key{"shop", "cart"}) {
		t.Fatal("Ada has lost her tunnel to Bob, who took nothing")
	}
	second := table.Join(Owner{User: "ada", Session: "t", Epoch: 1}, again)
	holds(t, table, second, "u")
	if _, lost := ada.heard(); lost != 1 || !second.Holds(Key{"shop", "cart"}) {
		t.Error("Ada's next session does not have her tunnel")
	}
}

func TestATunnelMovesWhenItIsTakenOrFree(t *testing.T) {
	table, _ := newTable(t)
	cart, key := cluster.Workload{Namespace: "shop", Name: "cart", UID: "u", Sandbox: "s"}, Key{"shop", "cart"}
	joins := func(user string) (*Holder, *station) {
		s := &station{}
		return table.Join(Owner{User: user, Session: "s", Epoch: 1}, s), s
	}
	ada, adas := joins("ada")
	bob, _ := joins("bob")
	holds(t, table, ada, "u")
	if refused := bob.Take(cart, []int32{80}); refused != nil || !bob.Holds(key) || adas.lost[0] != "shop/cart to bob" {
		t.Fatalf("Bob takes it: %v; Ada has lost %q", refused, adas.lost)
	}
	if all, _ := table.Tunnels(); !all[0].Take || all[0].Free {
		t.Errorf("the manager gets %v", all)
	}
	if ada.Hold(cart, []int32{80}) == nil {
		t.Error("Ada has it back without taking it")
	}
	bob.Disconnect()
	if ada.Hold(cart, []int32{80}) == nil {
		t.Error("a short cut of Bob's session loses the tunnel")
	}
	table.cfg.Free = time.Nanosecond
	if all, _ := table.Tunnels(); !all[0].Free {
		t.Errorf("the manager gets %v", all)
	}
	holds(t, table, ada, "u")
	if all, _ := table.Tunnels(); all[0].Take {
		t.Error("it is reported that Ada took a tunnel that was free")
	}
}

// What a live session holds at another proxy is held here as well, for other users and for that
// external workload alone.
func TestATunnelOfAnotherProxyIsNotMoved(t *testing.T) {
	table, _ := newTable(t)
	bob := table.Join(Owner{User: "bob", Session: "s", Epoch: 1}, &station{})
	cart := cluster.Workload{Namespace: "shop", Name: "cart", UID: "u", Sandbox: "s"}
	for what, c := range map[string]struct {
		held    *tunnelv1.Held
		refused bool
	}{
		"another user's":      {&tunnelv1.Held{Namespace: "shop", Name: "cart", Uid: "u", User: "ada", By: "ada at laptop"}, true},
		"his later session's": {&tunnelv1.Held{Namespace: "shop", Name: "cart", Uid: "u", User: "bob", Session: "t", Order: timestamppb.New(time.Now().Add(time.Hour)), By: "ada at laptop"}, true},
		"his earlier one's":   {&tunnelv1.Held{Namespace: "shop", Name: "cart", Uid: "u", User: "bob", Session: "t", Order: timestamppb.New(time.Now().Add(-time.Hour))}, false},
		"that of his session": {&tunnelv1.Held{Namespace: "shop", Name: "cart", Uid: "u", User: "bob", Session: "s", Order: timestamppb.New(time.Now().Add(time.Hour))}, false},
		"his own":             {&tunnelv1.Held{Namespace: "shop", Name: "cart", Uid: "u", User: "bob"}, false},
		"that of an old one":  {&tunnelv1.Held{Namespace: "shop", Name: "cart", Uid: "before", User: "ada"}, false},
		"of another workload": {&tunnelv1.Held{Namespace: "shop", Name: "db", Uid: "u", User: "ada"}, false},
	} {
		table.Elsewhere([]*tunnelv1.Held{c.held})
		refused := bob.Hold(cart, []int32{80})
		if (refused != nil) != c.refused || (bob.HeldBy(cart) == "ada at laptop") != c.refused {
			t.Errorf("%s: %v", what, refused)
		}
		bob.Release(Key{"shop", "cart"})
	}
	table.Elsewhere([]*tunnelv1.Held{{Namespace: "shop", Name: "cart", Uid: "u", User: "ada"}})
	if refused := bob.Take(cart, []int32{80}); refused != nil {
		t.Errorf("Bob may not take it: %v", refused)
	}
}

// A session that waits, or has lost the tunnel to a later one of its user, leaves it there: a
// reconnection does not make it the later one, and only Take does.
func TestAnEarlierSessionOfTheUserMovesNoTunnel(t *testing.T) {
	table, _ := newTable(t)
	cart, key := cluster.Workload{Namespace: "shop", Name: "cart", UID: "u", Sandbox: "s"}, Key{"shop", "cart"}
	begun := time.Now().Add(-time.Minute)
	joins := func(user, session string, epoch uint64, began time.Time) (*Holder, *station) {
		s := &station{}
		return table.Join(Owner{User: user, Session: session, Epoch: epoch, Began: began, Labels: map[string]string{"host": "host-" + session}}, s), s
	}
	dora, _ := joins("dora", "d", 1, begun)
	holds(t, table, dora, "u")
	waiting, _ := joins("bob", "first", 1, begun.Add(time.Second))
	if waiting.Hold(cart, []int32{80}) == nil {
		t.Fatal("Bob has Dora's tunnel without taking it")
	}
	taker, takers := joins("bob", "second", 1, begun.Add(2*time.Second))
	if refused := taker.Take(cart, []int32{80}); refused != nil {
		t.Fatal(refused)
	}
	stays := func(h *Holder, what string) {
		t.Helper()
		refused := h.Hold(cart, []int32{80})
		if _, lost := takers.heard(); refused.GetReason() != tunnelv1.Reason_REASON_TAKEN || lost > 0 || h.HeldBy(cart) != "bob at host-second" ||
			!strings.Contains(refused.GetMessage(), "is held by another session of yours at host-second.") {
			t.Errorf("%s is answered %v, held by %q; the later session has lost %d", what, refused, h.HeldBy(cart), lost)
		}
	}
	stays(waiting, "the waiting session")
	waiting.Disconnect()
	waiting, waits := joins("bob", "first", 2, begun.Add(time.Second))
	stays(waiting, "the waiting session after a reconnection")
	taker.Disconnect()
	stays(waiting, "while the later one reconnects, the waiting session")
	taker, takers = joins("bob", "second", 2, begun.Add(2*time.Second))
	holds(t, table, taker, "u")
	if refused := waiting.Take(cart, []int32{80}); refused != nil || !waiting.Holds(key) {
		t.Errorf("the earlier session may not take it: %v", refused)
	}
	if taker.Hold(cart, []int32{80}) == nil {
		t.Error("the later session, which began before the tunnel was taken, has it back")
	}
	third, _ := joins("bob", "third", 1, time.Time{})
	holds(t, table, third, "u")
	if _, lost := waits.heard(); lost != 1 {
		t.Errorf("the holder has lost %d tunnels to the next session", lost)
	}
	table.cfg.Free = time.Nanosecond
	third.Disconnect()
	holds(t, table, waiting, "u")
}

// A session that took the tunnel from a later session of its user keeps it when it moves to another proxy.
func TestATakenTunnelMovesToAnotherProxy(t *testing.T) {
	one, _ := newTable(t)
	two, _ := newTable(t)
	cart, begun := cluster.Workload{Namespace: "shop", Name: "cart", UID: "u", Sandbox: "s"}, time.Now().Add(-time.Minute)
	first := Owner{User: "bob", Session: "first", Epoch: 1, Began: begun}
	second := Owner{User: "bob", Session: "second", Epoch: 1, Began: begun.Add(time.Second)}
	holds(t, one, one.Join(second, &station{}), "u")
	if refused := one.Join(first, &station{}).Take(cart, []int32{80}); refused != nil {
		t.Fatal(refused)
	}
	all, _ := one.Tunnels()
	two.Elsewhere([]*tunnelv1.Held{{Namespace: "shop", Name: "cart", Uid: "u", User: "bob", Session: "first", Order: all[0].Order}})
	first.Epoch, second.Epoch = 2, 2
	holds(t, two, two.Join(first, &station{}), "u")
	two.Elsewhere(nil) // it is here now
	if refused := two.Join(second, &station{}).Hold(cart, []int32{80}); refused.GetReason() != tunnelv1.Reason_REASON_TAKEN {
		t.Errorf("the session that began later, and does not take the tunnel, is answered %v", refused)
	}
}
