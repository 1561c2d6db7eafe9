package serve

import (
	"context"
	"log/slog"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/translate"
	"switchyard.dev/xds/xdstest"
)

// asked counts how often the newest table is asked for.
type asked struct{ times int }

func (a *asked) Current() (table.Table, <-chan struct{}) {
	a.times++
	return table.Table{}, nil
}

// A client that opens streams faster than allowed is rejected before its workload's routes are
// built for it, and so is one that asks for names that it is not allowed.
func TestRoutesAreMadeForThoseWhoMayHaveThem(t *testing.T) {
	view := &asked{}
	own := table.Workload{Kind: "Deployment", Namespace: "hotrod", Name: "customer"}
	sessions, err := FromView(ViewConfig{View: view, Identify: func(context.Context, string) (Peer, error) {
		return Peer{Workload: own, Pod: "pod"}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	session, err := sessions.Open(t.Context(), "token")
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Allows(translate.RouteType, "another's"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("for another's routes: %v", err)
	}
	if view.times != 0 {
		t.Error("routes were made for a client that has not asked for any it may have")
	}
	session.Close()
}

// Acks may be read just after a client has left, when nothing is kept for its workload: the
// version that it had is then not reported as current.
func TestOfAClientThatHasLeftNothingIsKnown(t *testing.T) {
	own := table.Workload{Kind: "Deployment", Namespace: "hotrod", Name: "customer"}
	other := table.Workload{Kind: "Deployment", Namespace: "hotrod", Name: "driver"}
	board := xdstest.NewBoard(t)
	board.Complete()
	f := newFollower(board.View, slog.New(slog.DiscardHandler))
	left, stays := f.acquire(own), f.acquire(other)
	defer f.release(stays)
	version := left.routes.Version()
	if due, at := f.reached(left, version); due != version || at == (event.Pos{}) {
		t.Fatalf("while it is there: due %q, reached %v", due, at)
	}
	f.release(left)
	board.Declare(xdstest.Fork{Key: "k", Sandbox: "k", Baseline: own, Port: 8081})
	if due, at := f.reached(left, version); due != "" || at != (event.Pos{}) {
		t.Errorf("after it left: due %q, reached %v", due, at)
	}
}

// Every sidecar gets the custom headers, also that of a workload without changed rules; one
// that has not accepted them has not reached the position of their declaration.
func TestKeyHeadersReachEveryWorkload(t *testing.T) {
	board := xdstest.NewBoard(t)
	ruled := table.Workload{Kind: "Deployment", Namespace: "hotrod", Name: "customer"}
	plain := table.Workload{Kind: "Deployment", Namespace: "hotrod", Name: "driver"}
	board.Declare(xdstest.Fork{Key: "k", Sandbox: "k", Baseline: ruled, Port: 8081})
	board.Complete()
	f := newFollower(board.View, slog.New(slog.DiscardHandler))
	for _, w := range []table.Workload{ruled, plain} {
		one := f.acquire(w)
		defer f.release(one)
		before := one.routes.Version()
		was, _ := board.View.Current()
		board.KeyHeaders("x-key")
		now, _ := board.View.Current()
		due, at := f.reached(one, before)
		if due == before || at != was.Pos() {
			t.Errorf("%s: version %s is due and was before; what it had reaches %v, want %v", w.Name, due, at, was.Pos())
		}
		if _, at := f.reached(one, due); at != now.Pos() {
			t.Errorf("%s: the due version reaches %v, want %v", w.Name, at, now.Pos())
		}
		board.KeyHeaders()
	}
}
