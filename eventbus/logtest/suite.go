// Package logtest is what every eventbus.Log must do, as tests. An
// implementation runs it over its own store:
//
//	logtest.Run(t, func(t *testing.T) logtest.Store { ... })
package logtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// Store is one store of a log under test, with no log in it at first.
type Store struct {
	// Open returns a Log on the store, as another process would have it.
	Open func(t *testing.T) eventbus.Log
	// AppendMessage records a message in the log as it is, as a newer version of
	// the program may have done.
	AppendMessage func(t *testing.T, m event.Message)
	// Lose takes the store away and leaves an empty one, as if the disk of a
	// running bus had been replaced. Logs that are open go on being used.
	Lose func(t *testing.T)
	// Damage changes the event at a place behind the log's back. Nil where the
	// store cannot do it; so too the next two.
	Damage func(t *testing.T, seq uint64, change func(*event.Message))
	// Rewind cuts the log off behind a place, as a store does that came back from
	// an older copy.
	Rewind func(t *testing.T, to event.Mark)
	// Drop takes the event at a place away.
	Drop func(t *testing.T, seq uint64)
	// Crash kills the program that keeps the store, without warning, and restarts it on the
	// same store. Nil where the log has no life apart from the process.
	Crash func(t *testing.T)
	// Replicated means that a follower may read from a replica that has not got the newest
	// events yet, and then begins with the facts that were current there.
	Replicated bool
}

// wait bounds every single step. Nothing here takes a fraction of it but the elections of servers
// that get no processor for seconds.
const wait = 90 * time.Second

// Run runs the suite; fresh returns an empty store for each test.
func Run(t *testing.T, fresh func(t *testing.T) Store) {
	all(t, fresh, map[string]func(*testing.T, Store){
		"before it begins there is no log":                        noLog,
		"beginning twice begins once":                             beginOnce,
		"beginning compares the log with its known mark":          begunKnowing,
		"positions count from one":                                positions,
		"append compares with the newest of the key":              compareAndSet,
		"appending together records each fact once":               together,
		"an append that is given up takes no place":               givenUpAppend,
		"newest gives the last fact of a key, tombstones too":     newest,
		"a fact that can never be recorded is refused":            refused,
		"each event is linked to the one before":                  linked,
		"the time of recording never goes back":                   timeGoesOn,
		"of many who append to one key each place has one winner": oneWinner,
		"appenders side by side lose no order":                    sideBySide,
		"restarting ends the epoch for all":                       restart,
		"restarting ends the epoch that it names and no other":    restartFence,
		"a lost store ends the epoch for all":                     lostStore,
		"forgetting raises the floor and keeps what counts":       forgetting,
		"forgetting refuses a place without a floor":              forgetRefuses,
		"a writer learns what another has forgotten":              forgottenByOther,
	})
	all(t, fresh, map[string]func(*testing.T, Store){
		"a follower gets the newest of each key and then all":      followBeforeAndAfter,
		"a follower of an empty log waits for the first fact":      followEmpty,
		"a follower is whole at the tip read after following":      wholeAtTip,
		"tombstones stay for those who follow later":               tombstonesStay,
		"everything is kept and a fold gives the newest":           everythingIsKept,
		"a wait that is given up loses nothing":                    givenUpWait,
		"closing ends a wait":                                      closeEndsWait,
		"many keys come in batches and in order":                   manyKeys,
		"events of a newer kind have a place and no data":          newerKinds,
		"a damaged event is not passed over":                       damaged,
		"followers fold the facts that were appended":              foldsAlike,
		"a cursor gives each event as it was written and reads on": cursorReadsOn,
		"a cursor ends with its epoch, its context or by closing":  cursorEnds,
		"a reader of forgotten events gets ErrGone":                gone,
		"the history of a key is all that is kept of it":           historyOfAKey,
		"a log has a floor, a tip and a size":                      keptStretch,
	})
	damages(t, fresh)
}

// damages runs what needs a store that can be damaged.
func damages(t *testing.T, fresh func(t *testing.T) Store) {
	store := fresh(t)
	if store.Rewind != nil {
		t.Run("a rewound log is refused by those who know more", func(t *testing.T) { rewound(t, store) })
	}
	if store.Damage != nil {
		all(t, fresh, map[string]func(*testing.T, Store){
			"a log with altered data is refused": changed(2, func(m *event.Message) {
				m.Data = append([]byte(nil), m.Data...)
				m.Data[len(m.Data)-3]++
			}),
			"a log with an altered header is refused": changed(4, func(m *event.Message) { m.Header["ce-causemanager"] = "somebody-else" }),
			"a log with an unsealed event is refused": changed(1, func(m *event.Message) { delete(m.Header, "ce-chain") }),
		})
	}
	if store.Drop != nil {
		all(t, fresh, map[string]func(*testing.T, Store){
			"a log with a gap is refused":               dropped,
			"a log without its first events is refused": beheaded,
		})
	}
	if store.Crash != nil {
		all(t, fresh, map[string]func(*testing.T, Store){"a crash loses and reorders nothing": crash})
	}
}

func all(t *testing.T, fresh func(t *testing.T) Store, tests map[string]func(*testing.T, Store)) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, fresh(t)) })
	}
}

// Fact returns a fact about a routing key, distinguished by n.
func Fact(routingKey string, n int) event.Fact {
	return event.Fact{
		Key:   event.RoutingKey(routingKey),
		Cause: event.Cause{Kind: "RoutingConfig", Namespace: "signadot", Name: routingKey, Generation: int64(n)},
		Time:  time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		Data: &factv1.RoutingDeclared{RoutingKey: routingKey, Members: []*factv1.Member{
			{Kind: "ForkedWorkload", Namespace: "shop", Name: routingKey, Sandbox: fmt.Sprint(n)},
		}},
	}
}

// Withdrawn returns the tombstone of a routing key.
func Withdrawn(routingKey string) event.Fact {
	f := Fact(routingKey, 0)
	f.Data = &factv1.RoutingWithdrawn{RoutingKey: routingKey}
	return f
}

// number reads back the n of Fact, -1 for a tombstone.
func number(f event.Fact) int {
	n := -1
	if d, ok := f.Data.(*factv1.RoutingDeclared); ok && len(d.GetMembers()) == 1 {
		if _, err := fmt.Sscan(d.GetMembers()[0].GetSandbox(), &n); err != nil {
			return -2
		}
	}
	return n
}

func timed(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	t.Cleanup(cancel)
	return ctx
}

// begun opens a log that has begun. A store of several servers may be electing a leader, and
// then Begin returns a temporary error, as any call does.
func begun(t *testing.T, s Store) (eventbus.Log, event.Pos) {
	t.Helper()
	log := s.Open(t)
	for ctx := timed(t); ; {
		mark, err := log.Begin(ctx, event.Mark{})
		switch {
		case err == nil:
			return log, mark.Pos
		case ctx.Err() != nil, errors.Is(err, eventbus.ErrDamaged):
			t.Fatalf("Begin: %v", err)
		}
	}
}

// mustAppend appends a fact and returns its place, mustRecord its whole Mark.
func mustAppend(t *testing.T, log eventbus.Log, f event.Fact, last uint64) event.Pos {
	t.Helper()
	return mustRecord(t, log, f, last).Pos
}

func mustRecord(t *testing.T, log eventbus.Log, f event.Fact, last uint64) event.Mark {
	t.Helper()
	mark, err := log.Append(timed(t), f, last)
	if err != nil {
		t.Fatalf("Append(%s, %d): %v", f.Key, last, err)
	}
	return mark
}

// appendMany begins to append n facts, each of a key of its own, from several goroutines
// at once. Wait for them.
func appendMany(t *testing.T, log eventbus.Log, n, writers int) *sync.WaitGroup {
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := w; i < n; i += writers {
				if err := persist(timed(t), log, Fact(fmt.Sprint("k", i), i)); err != nil {
					t.Errorf("Append: %v", err)
					return
				}
			}
		})
	}
	return &all
}

func mustFollow(t *testing.T, log eventbus.Reader) eventbus.Follower {
	t.Helper()
	f, err := log.Follow(timed(t))
	if err != nil {
		t.Fatalf("Follow: %v", err)
	}
	t.Cleanup(f.Close)
	return f
}

func mustTip(t *testing.T, log eventbus.Reader) event.Pos {
	t.Helper()
	pos, err := log.Tip(timed(t))
	if err != nil {
		t.Fatalf("Tip: %v", err)
	}
	return pos
}

// reader is a Follower or a Cursor.
type reader[E any] interface {
	Next(ctx context.Context) ([]E, error)
}

// placeOf returns the place of an event as readers give it.
func placeOf[E any](e E) event.Pos {
	if s, ok := any(e).(event.Stored); ok {
		return s.Pos
	}
	return any(e).(event.Recorded).Pos
}

// until reads until the event at seq has arrived, and checks that the events are in order,
// within one epoch, and not repeated.
func until[E any](t *testing.T, r reader[E], seq uint64) []E {
	t.Helper()
	ctx := timed(t)
	var all []E
	var last event.Pos
	for last.Seq < seq {
		events, err := r.Next(ctx)
		if err != nil {
			t.Fatalf("Next after %d events, waiting for %d: %v", len(all), seq, err)
		}
		if len(events) == 0 {
			t.Fatal("Next gave nothing and no error")
		}
		for _, e := range events {
			pos := placeOf(e)
			if len(all) > 0 && (pos.Seq <= last.Seq || pos.Epoch != last.Epoch) {
				t.Fatalf("%v came after %v", pos, last)
			}
			all, last = append(all, e), pos
		}
	}
	return all
}

// endOf reads until there is an error, and checks that there is no gap.
func endOf[E any](t *testing.T, last uint64, r reader[E]) error {
	t.Helper()
	for {
		events, err := r.Next(timed(t))
		if err != nil {
			return err
		}
		for _, e := range events {
			if seq := placeOf(e).Seq; seq != last+1 {
				t.Fatalf("event %d was followed by event %d", last, seq)
			}
			last++
		}
	}
}

// expectPresent checks what a follower gave first: the newest fact of each key.
func (s Store) expectPresent(t *testing.T, got []event.Recorded, want ...string) {
	t.Helper()
	if s.Replicated {
		newest := map[event.Key]event.Pos{}
		for _, r := range got {
			newest[r.Fact.Key] = r.Pos
		}
		got = slices.DeleteFunc(got, func(r event.Recorded) bool { return r.Pos != newest[r.Fact.Key] })
	}
	expect(t, got, want...)
}

// expect checks positions and numbers of what a follower gave.
func expect(t *testing.T, got []event.Recorded, want ...string) {
	t.Helper()
	have := lists.Map(got, func(r event.Recorded) string { return fmt.Sprintf("%d %s %d", r.Pos.Seq, r.Fact.Key, number(r.Fact)) })
	if fmt.Sprint(have) != fmt.Sprint(want) {
		t.Fatalf("the follower gave\n%q, want\n%q", have, want)
	}
}

func expectError(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: %v, want: %v", what, got, want)
	}
}
