package linearizable

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/publisher"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tools/wait"
)

// objects is what Kubernetes would hold: the truth. Each object belongs to one
// worker at a time.
type objects struct {
	mu    sync.Mutex
	truth map[event.Key]object
}

// object is what a register is to be; recorded counts the changes of it that
// are known to be in the log.
type object struct {
	worker   chan struct{} // holds a token while nobody works on it
	value    string
	recorded int
}

// registerNames are routing keys; each reaches one baseline.
var registerNames = []string{"k1", "k2", "k3", "k4", "k5"}

func newObjects() *objects {
	o := &objects{truth: map[event.Key]object{}}
	for _, name := range registerNames {
		o.truth[event.RoutingKey(name)] = object{worker: token()}
		o.truth[workloadKey(name)] = object{worker: token()}
	}
	return o
}

func token() chan struct{} {
	c := make(chan struct{}, 1)
	c <- struct{}{}
	return c
}

func workloadKey(register string) event.Key {
	return event.Workload("ForkedWorkload", "shop", "fork-"+register)
}

func baselineOf(register string) table.Workload {
	return table.Workload{Kind: "Deployment", Namespace: "shop", Name: "baseline-" + register}
}

func (o *objects) get(key event.Key) object {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.truth[key]
}

func (o *objects) change(key event.Key, change func(*object)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.truth[key]
	change(&now)
	o.truth[key] = now
}

// take waits until the object is free and returns what frees it again.
func (o *objects) take(ctx context.Context, key event.Key) (free func(), err error) {
	worker := o.get(key).worker
	select {
	case <-worker:
		return func() { worker <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fact is what there is to say of an object.
func (o *objects) fact(key event.Key) event.Fact {
	name, isKey := strings.CutPrefix(string(key), "key/")
	if !isKey {
		register := string(key[strings.LastIndex(string(key), "-")+1:])
		b := baselineOf(register)
		return event.Fact{Key: key, Data: &factv1.WorkloadObserved{
			Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: "shop", Name: "fork-" + register, Uid: "uid"},
			Created:  timestamppb.New(time.Unix(1, 0)),
			Baseline: &factv1.ObjectRef{Kind: b.Kind, Namespace: b.Namespace, Name: b.Name}, Ready: true,
		}}
	}
	value := o.get(key).value
	if value == "" {
		return event.Fact{Key: key, Data: &factv1.RoutingWithdrawn{RoutingKey: name}}
	}
	return event.Fact{Key: key, Data: &factv1.RoutingDeclared{RoutingKey: name, Members: []*factv1.Member{
		memberOf(name, value),
	}}}
}

// usurped is what a former leader says of an object.
func (o *objects) usurped(key event.Key, n int) *factv1.RoutingDeclared {
	name := strings.TrimPrefix(string(key), "key/")
	return &factv1.RoutingDeclared{RoutingKey: name, Members: []*factv1.Member{
		memberOf(name, fmt.Sprint("usurped-", n)),
	}}
}

// memberOf is the member of a register, with the baseline that it represents: the key has a rule before
// the member is observed.
func memberOf(register, sandbox string) *factv1.Member {
	b := baselineOf(register)
	return &factv1.Member{
		Kind: "ForkedWorkload", Namespace: "shop", Name: "fork-" + register, Sandbox: sandbox,
		Baseline: &factv1.ObjectRef{Kind: b.Kind, Namespace: b.Namespace, Name: b.Name},
	}
}

// leader states what is true of the objects.
type leader struct {
	ctx       context.Context
	objects   *objects
	publisher *publisher.Publisher
	running   sync.WaitGroup
}

// lead runs a leader on a log until ctx ends.
func lead(ctx context.Context, log eventbus.Log, o *objects) (*leader, error) {
	l := &leader{ctx: ctx, objects: o}
	var err error
	l.publisher, err = publisher.New(publisher.Config{
		Log: log, Objects: l.keys, Refill: l.refill, Epochs: &epochs{}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	l.running.Go(func() { _ = l.publisher.Run(ctx) }) // nil when ctx ends
	return l, nil
}

// keys returns the objects that a fact is due for.
func (l *leader) keys(context.Context) ([]event.Key, error) {
	l.objects.mu.Lock()
	defer l.objects.mu.Unlock()
	var out []event.Key
	for key, o := range l.objects.truth {
		if o.value != "" || !strings.HasPrefix(string(key), "key/") {
			out = append(out, key)
		}
	}
	return out, nil
}

// refill has every object looked at again.
func (l *leader) refill(context.Context) error {
	l.objects.mu.Lock()
	defer l.objects.mu.Unlock()
	for key := range l.objects.truth {
		l.running.Go(func() {
			free, err := l.objects.take(l.ctx, key)
			if err != nil {
				return // the test is over
			}
			defer free()
			l.state(l.ctx, key)
		})
	}
	return nil
}

// state states an object until that is recorded, and reports whether it is. The
// caller works on the object.
func (l *leader) state(ctx context.Context, key event.Key) bool {
	for {
		_, err := l.publisher.Put(ctx, l.objects.fact(key))
		if err == nil || errors.Is(err, eventbus.ErrRefused) {
			return err == nil
		}
		if wait.For(ctx, 5*time.Millisecond) != nil {
			return false
		}
	}
}

// outcome is how a write ended.
type outcome int

const (
	notBegun outcome = iota
	unknown
	recorded
)

// set changes an object and states it.
func (l *leader) set(ctx context.Context, key event.Key, value string) outcome {
	free, err := l.objects.take(ctx, key)
	if err != nil {
		return notBegun
	}
	defer free()
	l.objects.change(key, func(o *object) { o.value = value })
	if !l.state(ctx, key) {
		return unknown
	}
	if value != "" {
		l.objects.change(key, func(o *object) { o.recorded++ })
	}
	return recorded
}

// epochs keeps what the log has reached, as the API server would.
type epochs struct {
	mu    sync.Mutex
	saved publisher.Witness
}

// Load implements publisher.EpochStore.
func (e *epochs) Load(context.Context) (publisher.Witness, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.saved, nil
}

// Save implements publisher.EpochStore.
func (e *epochs) Save(_ context.Context, w publisher.Witness) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.saved = w
	return nil
}
