package linearizable

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/projection"
	"switchyard.dev/routeserver/view"
	"switchyard.dev/tools/wait"
)

// options break the world on purpose.
type options struct {
	// stale reads do not wait for the log.
	stale bool
	// deaf makes the second server miss facts.
	deaf bool
}

// world is everything: a bus, a leader, a former leader, two route servers, and
// those who use them.
type world struct {
	t       *testing.T
	ctx     context.Context
	bus     *bus
	links   map[string]*link
	leader  *leader
	former  *jetstream.Log
	servers []*routeServer
	history *history
	all     sync.WaitGroup
}

// Who has a link to the bus. What replays has one that is never cut.
var linked = map[string]connect.Role{
	"leader": connect.Writer, "former": connect.Writer, "server 1": connect.Follower, "server 2": connect.Follower, "replay": connect.Follower,
}

func newWorld(t *testing.T, o options) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &world{t: t, ctx: ctx, bus: startBus(t), links: map[string]*link{}, history: newHistory()}
	logs := map[string]*jetstream.Log{}
	for name, role := range linked {
		w.links[name] = newLink(t, w.bus)
		logs[name] = w.links[name].open(t, role)
	}
	t.Cleanup(func() { cancel(); w.all.Wait() })
	var err error
	if w.leader, err = lead(ctx, logs["leader"], newObjects()); err != nil {
		t.Fatal(err)
	}
	w.all.Go(w.leader.running.Wait)
	w.former = logs["former"]
	for _, name := range []string{"server 1", "server 2"} {
		s := &routeServer{name: name, log: logs[name], stale: o.stale}
		if o.deaf && name == "server 2" {
			s.log = deafTo{s.log}
		}
		if s.view, err = view.New(view.Config{Log: s.log, Retry: projection.Retry{Max: 200 * time.Millisecond}}); err != nil {
			t.Fatal(err)
		}
		w.all.Go(func() { _ = s.view.Run(ctx) }) // nil when ctx ends
		w.all.Go(func() { s.watch(ctx, w.history.saw) })
		w.servers = append(w.servers, s)
	}
	w.all.Go(func() { replay(ctx, logs["replay"], w.history.saw) })
	for _, s := range w.servers {
		within, done := context.WithTimeout(ctx, time.Minute)
		if _, err := s.view.WaitWhole(within); err != nil {
			t.Fatalf("%s never has a table: %v", s.name, err)
		}
		done()
	}
	return w
}

// writers and readers are how many controllers and users there are.
const writers, readers = 3, 4

// run lets everybody read and write for a while, and breaks things meanwhile.
func (w *world) run(lasting time.Duration, breaks func(context.Context, *rand.Rand)) {
	ctx, cancel := context.WithTimeout(w.ctx, lasting)
	defer cancel()
	var users sync.WaitGroup
	for client := range writers {
		users.Go(func() { w.write(ctx, client) })
	}
	for i := range readers {
		users.Go(func() { w.read(ctx, writers+i, w.servers[i%len(w.servers)]) })
	}
	users.Go(func() { w.usurp(ctx) })
	if breaks != nil {
		rng := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
		users.Go(func() { breaks(ctx, rng) })
	}
	users.Wait()
}

// opTimeout is how long somebody waits for the end of what was begun.
const opTimeout = time.Second

func (w *world) write(ctx context.Context, client int) {
	for n := 0; ctx.Err() == nil; n++ {
		register := registerNames[rand.N(len(registerNames))]
		value := fmt.Sprintf("sb-%d-%d", client, n) // never the same twice
		if rand.N(8) == 0 {
			value = ""
		}
		within, done := context.WithTimeout(w.ctx, opTimeout)
		called := w.history.now()
		switch w.leader.set(within, event.RoutingKey(register), value) {
		case recorded:
			w.history.add(client, call{register, true, value}, called, "", w.history.now())
		case unknown:
			w.history.add(client, call{register, true, value}, called, "", never)
		}
		done()
		pause(ctx, 10*time.Millisecond)
	}
}

// read reads; a read without an answer has no part in the history.
func (w *world) read(ctx context.Context, client int, s *routeServer) {
	for ctx.Err() == nil {
		register := registerNames[rand.N(len(registerNames))]
		within, done := context.WithTimeout(w.ctx, opTimeout)
		called := w.history.now()
		if value, t, err := s.read(within, register); err == nil {
			w.history.add(client, call{register: register}, called, value, w.history.now())
			w.history.saw(s.name, t)
		}
		done()
		pause(ctx, 5*time.Millisecond)
	}
}

// usurp is a former leader who goes on: it writes what it believes to be the next
// fact of an object, of which others have recorded a newer one since. All that
// must be refused, so none of it is in the history.
func (w *world) usurp(ctx context.Context) {
	begun := false
	for n := 0; ctx.Err() == nil; n++ {
		pause(ctx, 20*time.Millisecond)
		if !begun {
			_, err := w.former.Begin(ctx, event.Mark{})
			begun = err == nil
			continue
		}
		key := event.RoutingKey(registerNames[rand.N(len(registerNames))])
		last, _, err := w.former.Newest(ctx, key)
		if err != nil {
			continue
		}
		// Two more, since one may have begun before it looked.
		for since := w.leader.objects.get(key).recorded; w.leader.objects.get(key).recorded < since+2 && ctx.Err() == nil; {
			pause(ctx, 5*time.Millisecond)
		}
		f := event.Fact{Key: key, Time: time.Now(), Data: w.leader.objects.usurped(key, n)}
		_, err = w.former.Append(ctx, f, last.Pos.Seq)
		if err == nil {
			w.t.Errorf("a former leader wrote %s behind %v", key, last.Pos)
		}
		begun = errors.Is(err, eventbus.ErrConflict)
	}
}

// breakThings breaks one thing after the other.
func (w *world) breakThings(ctx context.Context, rng *rand.Rand) {
	admin := w.links["replay"].open(w.t, connect.Writer)
	done := map[string]int{}
	for n := 0; ctx.Err() == nil; n++ {
		pause(ctx, 200*time.Millisecond)
		faults := []struct {
			name string
			do   func()
		}{
			{"bus killed", func() { w.bus.kill(); w.bus.start() }},
			{"bus stopped for a while", func() { w.bus.pause(time.Duration(100+rng.IntN(400)) * time.Millisecond) }},
			{"link cut", func() { w.cutOne(ctx, rng) }},
			{"log begun again", func() { w.restart(admin) }},
			{"link cut while the bus is killed", func() { w.bus.kill(); w.cutOne(ctx, rng); w.bus.start() }},
			{"store lost", func() { w.bus.kill(); w.bus.lose(); w.bus.start() }},
		}
		f := faults[n%len(faults)] // each in turn: a short run has them all too
		f.do()
		done[f.name]++
	}
	w.t.Logf("faults: %v", done)
}

func (w *world) restart(log *jetstream.Log) {
	within, done := context.WithTimeout(w.ctx, 2*time.Second)
	defer done()
	tip, err := log.Tip(within)
	if err != nil {
		return // it is broken already
	}
	if _, err := log.Restart(within, tip.Epoch); err != nil && !errors.Is(err, eventbus.ErrEpochEnded) {
		w.t.Logf("the log could not be begun again: %v", err)
	}
}

// cutServers cuts the links of the route servers again and again.
func (w *world) cutServers(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		w.cut(ctx, []string{"server 1", "server 2"}[rng.IntN(2)], 300*time.Millisecond)
		pause(ctx, 100*time.Millisecond)
	}
}

func (w *world) cutOne(ctx context.Context, rng *rand.Rand) {
	names := []string{"leader", "former", "server 1", "server 2"}
	w.cut(ctx, names[rng.IntN(len(names))], time.Duration(rng.IntN(400))*time.Millisecond)
}

func (w *world) cut(ctx context.Context, name string, lasting time.Duration) {
	w.links[name].Sever(true)
	defer w.links[name].Sever(false)
	_ = wait.For(ctx, lasting)
}

// verdict lets what was begun come to an end, and judges.
func (w *world) verdict() verdict { return w.history.judge() }

// pause waits about so long.
func pause(ctx context.Context, about time.Duration) {
	_ = wait.For(ctx, about/2+rand.N(about))
}
