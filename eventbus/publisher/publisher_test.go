package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/eventbus/memory"
	"switchyard.dev/eventbus/publisher"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/tests/background"
	"switchyard.dev/tools/wait"
)

// world is the objects and their controllers, which state facts through the publisher when they
// are asked to.
type world struct {
	publisher *publisher.Publisher

	queue   sync.Mutex
	mu      sync.Mutex
	objects map[string]int // routing key to number
	mute    []string       // those whose controllers say nothing
	refills int
}

func (w *world) set(name string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objects[name] = n
}

func (w *world) keys(context.Context) ([]event.Key, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var keys []event.Key
	for name := range w.objects {
		keys = append(keys, event.RoutingKey(name))
	}
	return keys, nil
}

// refill states every object, as the controllers would a moment later.
func (w *world) refill(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refills++
	for name := range w.objects {
		if !slices.Contains(w.mute, name) {
			go w.reconcile(ctx, name)
		}
	}
	return nil
}

// reconcile states the current object until that succeeds, as a work queue would: one at a
// time.
func (w *world) reconcile(ctx context.Context, name string) {
	w.queue.Lock()
	defer w.queue.Unlock()
	for ctx.Err() == nil {
		w.mu.Lock()
		n := w.objects[name]
		w.mu.Unlock()
		_, err := w.publisher.Put(ctx, logtest.Fact(name, n))
		if err == nil || errors.Is(err, eventbus.ErrRefused) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (w *world) asked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refills
}

// epochs is an EpochStore in memory.
type epochs struct {
	mu      sync.Mutex
	witness publisher.Witness
}

func (e *epochs) Load(context.Context) (publisher.Witness, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.witness, nil
}

func (e *epochs) Save(_ context.Context, w publisher.Witness) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.witness = w
	return nil
}

// mark is the place that is saved.
func (e *epochs) mark() event.Mark {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.witness.Mark
}

// lead makes a publisher for these objects the leader, until the test ends or the returned
// function is called.
func lead(t *testing.T, log eventbus.Log, saved *epochs, objects map[string]int, mute ...string) (*world, func()) {
	t.Helper()
	return leadWith(t, publisher.Config{Log: log, Epochs: saved}, objects, mute...)
}

// leadWith is lead with further configuration.
func leadWith(t *testing.T, c publisher.Config, objects map[string]int, mute ...string) (*world, func()) {
	t.Helper()
	w := &world{objects: objects, mute: mute}
	c.Objects, c.Refill, c.Logger = w.keys, w.refill, quiet
	c.Clock = func() time.Time { return time.Unix(1800000000, 0) }
	p, err := publisher.New(c)
	if err != nil {
		t.Fatal(err)
	}
	w.publisher = p
	return w, background.Run(t, p.Run)
}

// await waits for a condition.
var await = wait.Holds

func ready(t *testing.T, w *world) {
	t.Helper()
	await(t, "the log is whole", func() bool { return w.publisher.Ready() == nil })
}

// read returns the newest fact of each key that is in the log now, in its order.
func read(t *testing.T, log eventbus.Reader) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	f, err := log.Follow(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	defer f.Close()
	tip, err := log.Tip(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	var all []string
	for at := uint64(0); at < tip.Seq; {
		facts, err := f.Next(ctx)
		if err != nil {
			return []string{err.Error()}
		}
		for _, r := range facts {
			all, at = append(all, describe(r.Fact)), r.Pos.Seq
		}
	}
	return all
}

func describe(f event.Fact) string {
	switch d := f.Data.(type) {
	case *factv1.Complete:
		return fmt.Sprintf("complete %s %d", d.GetReason(), d.GetRoutingKeys())
	case *factv1.RoutingDeclared:
		return d.GetRoutingKey() + " " + d.GetMembers()[0].GetSandbox()
	case *factv1.RoutingWithdrawn:
		return d.GetRoutingKey() + " withdrawn"
	}
	return fmt.Sprintf("%T", f.Data)
}

func expect(t *testing.T, log eventbus.Reader, want ...string) {
	t.Helper()
	var got []string
	await(t, fmt.Sprintf("the log says %q", want), func() bool {
		got = read(t, log)
		return fmt.Sprint(got) == fmt.Sprint(want)
	})
}

func TestANewLogIsFilledAndThenComplete(t *testing.T) {
	store, saved := memory.NewStore(), &epochs{}
	w, _ := lead(t, store.Open(), saved, map[string]int{"a": 1})
	ready(t, w)
	expect(t, store.Open(), "a 1", "complete first 1")
	tip, _ := store.Open().Tip(t.Context())
	if mark := saved.mark(); mark.Epoch != tip.Epoch {
		t.Errorf("saved is %v, the log is at %v", mark, tip)
	}
	if pos := w.publisher.Position(); pos != tip {
		t.Errorf("the position is %v, the log is at %v", pos, tip)
	}
}

func TestCompleteWaitsForEveryObject(t *testing.T) {
	store := memory.NewStore()
	reader := store.Open()
	// The controllers of b and c state nothing by themselves.
	w, _ := lead(t, store.Open(), &epochs{}, map[string]int{"a": 1, "b": 1, "c": 1}, "b", "c")
	expect(t, reader, "a 1")
	for _, settle := range []string{"a", "c", "nobody's"} {
		if w.publisher.Ready() == nil {
			t.Fatal("the log is said to be whole without b")
		}
		w.publisher.Settle(event.RoutingKey(settle))
	}
	expect(t, reader, "a 1")
	w.reconcile(t.Context(), "b")
	ready(t, w)
	expect(t, reader, "a 1", "b 1", "complete first 2")
}

func TestAnObjectThatGoesMeanwhileHoldsNothingBack(t *testing.T) {
	store := memory.NewStore()
	w, _ := lead(t, store.Open(), &epochs{}, map[string]int{"a": 1, "b": 1}, "b")
	expect(t, store.Open(), "a 1")
	w.mu.Lock()
	delete(w.objects, "b")
	w.mu.Unlock()
	ready(t, w)
	expect(t, store.Open(), "a 1", "complete first 1")
}

func TestAFactThatCannotBeRecordedDoesNotHoldBackTheOthers(t *testing.T) {
	store := memory.NewStore()
	large := string(make([]byte, 4000)) // too long for a subject
	w, _ := lead(t, store.Open(), &epochs{}, map[string]int{"a": 1, large: 1})
	ready(t, w)
	expect(t, store.Open(), "a 1", "complete first 1")
	if _, err := w.publisher.Put(t.Context(), logtest.Fact(large, 1)); !errors.Is(err, eventbus.ErrRefused) {
		t.Errorf("Put: %v", err)
	}
}

func TestFactsOfTheLogAreNotAppendedAgain(t *testing.T) {
	store := memory.NewStore()
	w, _ := lead(t, store.Open(), &epochs{}, map[string]int{"a": 1})
	ready(t, w)
	put := func(f event.Fact) event.Pos {
		t.Helper()
		pos, err := w.publisher.Put(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		return pos
	}
	again := logtest.Fact("a", 1)
	again.Cause, again.Time = event.Cause{Manager: "somebody else"}, time.Time{}
	if pos := put(again); pos.Seq != 1 {
		t.Errorf("the same fact is at %d, not at 1", pos.Seq)
	}
	if pos := put(logtest.Withdrawn("never there")); pos.Seq != 0 {
		t.Errorf("the end of what never was is at %d", pos.Seq)
	}
	if pos := put(logtest.Fact("a", 2)); pos.Seq != 3 {
		t.Errorf("another fact is at %d, not at 3", pos.Seq)
	}
	if pos := put(logtest.Withdrawn("a")); pos.Seq != 4 {
		t.Errorf("the end is at %d, not at 4", pos.Seq)
	}
	if pos := put(logtest.Withdrawn("a")); pos.Seq != 4 {
		t.Errorf("the same end is at %d, not at 4", pos.Seq)
	}
	if got, _, err := store.Open().Newest(t.Context(), event.RoutingKey("a")); err != nil || got.Fact.Time.IsZero() {
		t.Errorf("a fact without time was recorded as %v, %v", got, err)
	}
}

func TestManyPutsOfOneKeyEndWithTheLast(t *testing.T) {
	store := memory.NewStore()
	w, _ := lead(t, store.Open(), &epochs{}, map[string]int{})
	ready(t, w)
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			if _, err := w.publisher.Put(t.Context(), logtest.Fact("a", n)); err != nil {
				t.Errorf("Put: %v", err)
			}
		})
	}
	all.Wait()
	if _, err := w.publisher.Put(t.Context(), logtest.Fact("a", 99)); err != nil {
		t.Fatal(err)
	}
	expect(t, store.Open(), "complete first 0", "a 99")
}

func TestPutWithoutALogAsksToComeAgain(t *testing.T) {
	w := &world{}
	p, err := publisher.New(publisher.Config{Log: memory.New(), Objects: w.keys, Refill: w.refill, Epochs: &epochs{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Ready(); !errors.Is(err, publisher.ErrAway) {
		t.Errorf("Ready before Run: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.Put(ctx, logtest.Fact("a", 1))
	if !errors.Is(err, publisher.ErrAway) {
		t.Errorf("Put before Run: %v", err)
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("who goes away himself is told that the log was too slow: %v", err)
	}
}

func TestMissingConfigurationIsReported(t *testing.T) {
	w, log := &world{}, memory.New()
	for what, c := range map[string]publisher.Config{
		"Log":     {Objects: w.keys, Refill: w.refill, Epochs: &epochs{}},
		"Objects": {Log: log, Refill: w.refill, Epochs: &epochs{}},
		"Refill":  {Log: log, Objects: w.keys, Epochs: &epochs{}},
		"Epochs":  {Log: log, Objects: w.keys, Refill: w.refill},
	} {
		if _, err := publisher.New(c); err == nil {
			t.Errorf("without %s: no error", what)
		}
	}
}

// vanishing is a log that becomes unavailable right after it has returned the newest fact of a
// key to a writer with a conflict.
type vanishing struct {
	eventbus.Log
	store *memory.Store
	left  func() // waits until the publisher has noticed
	gone  atomic.Bool
}

func (v *vanishing) Begin(ctx context.Context, known event.Mark) (event.Mark, error) {
	if v.gone.Load() {
		return event.Mark{}, errors.New("the bus is down")
	}
	return v.Log.Begin(ctx, known)
}

func (v *vanishing) Append(ctx context.Context, f event.Fact, last uint64) (event.Mark, error) {
	if f.Tombstone() {
		return event.Mark{}, eventbus.ErrConflict
	}
	return v.Log.Append(ctx, f, last)
}

func (v *vanishing) Newest(ctx context.Context, key event.Key) (event.Recorded, bool, error) {
	r, ok, err := v.Log.Newest(ctx, key)
	v.gone.Store(true)
	v.store.Lose()
	v.left()
	return r, ok, err
}

func TestAnEndThatWasNotRecordedBecauseTheLogWentAwayIsNotSaidToBe(t *testing.T) {
	store := memory.NewStore()
	log := &vanishing{Log: store.Open(), store: store}
	w, _ := lead(t, log, &epochs{}, map[string]int{"a": 1})
	ready(t, w)
	log.left = func() {
		await(t, "the log is away", func() bool { return errors.Is(w.publisher.Ready(), publisher.ErrAway) })
	}
	if pos, err := w.publisher.Put(t.Context(), logtest.Withdrawn("a")); !errors.Is(err, publisher.ErrAway) {
		t.Errorf("the end of a is said to be at %v, with error %v", pos, err)
	}
}
