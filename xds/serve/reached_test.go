package serve_test

import (
	"testing"
	"time"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/translate"
	"switchyard.dev/xds/xdstest"
)

// ackOf returns the one acknowledgement of a server, once it holds.
func ackOf(t *testing.T, server *serve.Server, what string, holds func(serve.Ack) bool) serve.Ack {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		acks := server.Acks()
		if len(acks) == 1 && holds(acks[0]) {
			return acks[0]
		}
		if time.Now().After(deadline) {
			t.Fatalf("never: %s; the acknowledgements are %+v", what, acks)
		}
	}
}

func TestAnAcknowledgementSaysWhichPositionIsReached(t *testing.T) {
	for form, subscribe := range map[string]func(*xdstest.Client){
		"of the whole": func(c *xdstest.Client) { c.Subscribe(translate.RouteName(customer)) },
		"of the head":  func(c *xdstest.Client) { c.SubscribeParts(customer, nil) },
	} {
		t.Run(form, func(t *testing.T) { acknowledgementsAreExact(t, subscribe) })
	}
}

func acknowledgementsAreExact(t *testing.T, subscribe func(*xdstest.Client)) {
	board := xdstest.NewBoard(t)
	board.Declare(fork(customer, "k1"))
	board.Complete()
	server, conn := start(t, board, serve.Config{})
	now := func() event.Pos {
		shown, _ := board.View.Current()
		return shown.Pos()
	}
	client := xdstest.Open(t, conn, "pod@customer")
	subscribe(client)
	first := client.Next()
	version := first.Resources[len(first.Resources)-1].Version // the head comes last
	if got := ackOf(t, server, "it has been sent the routes", func(a serve.Ack) bool { return a.Sent != "" }); got.Reached != (event.Pos{}) || got.Due != version {
		t.Errorf("before it answered: reached %v, due %q", got.Reached, got.Due)
	}
	client.Ack(first)
	ackOf(t, server, "it reaches the present", func(a serve.Ack) bool { return a.Reached == now() })

	// Facts about others advance the position, without a request by the client.
	old := now()
	board.Declare(fork(driver, "k2"))
	ackOf(t, server, "it reaches what does not concern it", func(a serve.Ack) bool { return a.Reached == now() && a.Reached != old })

	// Until it answers, it stays where it was, however far the log goes on.
	before := now()
	board.Declare(fork(customer, "k3"))
	withK3 := client.Next()
	board.Declare(fork(driver, "k4"))
	got := ackOf(t, server, "new routes are due", func(a serve.Ack) bool { return a.Due != a.Acked })
	if got.Reached.Seq < before.Seq || got.Reached.Seq > before.Seq+1 { // +1: the fork is observed before its key is declared
		t.Errorf("reached %v with routes of %v", got.Reached, before)
	}

	// When its rules become again those it accepted last, it may still be using the version
	// that it was sent and has not answered.
	board.Withdraw("k3")
	if got := ackOf(t, server, "it accepted what is due again", func(a serve.Ack) bool { return a.Due == a.Acked }); got.Reached.Seq >= now().Seq {
		t.Errorf("reached %v of %v while other routes are on their way", got.Reached, now())
	}

	// A late answer is about the version it was sent, and not about the one that is due.
	client.Ack(withK3)
	without := client.Next()
	if got := ackOf(t, server, "the late answer is known", func(a serve.Ack) bool { return a.Due != a.Acked }); got.Reached.Seq >= now().Seq {
		t.Errorf("reached %v of %v with routes that have since been withdrawn", got.Reached, now())
	}
	client.Ack(without)
	ackOf(t, server, "it reaches the present again", func(a serve.Ack) bool { return a.Reached == now() })

	// A refusal reaches nothing.
	board.Declare(fork(customer, "k5"))
	before = server.Acks()[0].Reached
	client.Nack(client.Next(), "no")
	got = ackOf(t, server, "the refusal is known", func(a serve.Ack) bool { return a.Rejected != "" })
	if got.Reached != before || got.Reached == now() {
		t.Errorf("after the refusal it has reached %v of %v", got.Reached, now())
	}
}

// A client that refuses routes in parts uses some of them. When the version it accepted before
// is due again, it has not returned to it until it accepts it.
func TestOfAMixtureNothingIsReached(t *testing.T) {
	board := xdstest.NewBoard(t)
	board.Complete()
	server, conn := start(t, board, serve.Config{Pace: 500 * time.Millisecond})
	client := xdstest.Open(t, conn, "pod@customer")
	client.SubscribeParts(customer, nil)
	client.Ack(client.Next())
	ackOf(t, server, "it has accepted the first", func(a serve.Ack) bool { return a.Acked != "" })
	board.Declare(fork(customer, "k1"))
	client.Nack(client.Next(), "no")
	ackOf(t, server, "the refusal is known", func(a serve.Ack) bool { return a.Rejected != "" })
	board.Withdraw("k1")
	if got := ackOf(t, server, "the first is due again", func(a serve.Ack) bool { return a.Due != a.Rejected }); got.Reached != (event.Pos{}) {
		t.Errorf("reached %v before it said that it has gone back", got.Reached)
	}
	client.Ack(client.Next())
	now, _ := board.View.Current()
	ackOf(t, server, "it reaches the present", func(a serve.Ack) bool { return a.Reached == now.Pos() })
}
