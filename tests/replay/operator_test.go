package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/datadriven"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/publisher"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/drain"
	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/tests/fakecluster"
	"switchyard.dev/tools/wait"
)

const operatorNamespace = "signadot"

// operator is a cluster with controllers, and the publisher of what they state.
type operator struct {
	cluster   *fakecluster.Cluster
	publisher *publisher.Publisher
	log       eventbus.Log
	witness   witness
	// stop ends the publisher; down says that nobody leads.
	stop func()
	down bool
	// clock is the time in the cluster.
	clock atomic.Pointer[time.Time]
	// namespaces, headers and routedBy are how the operator is set up: by which meshes it routes.
	namespaces, headers, routedBy []string
	meshes                        []*mesh
	// runsUnits says that it runs the units of resources.
	runsUnits bool
	// policies are its settings for policies that do not apply to forks.
	policies policies.Settings
}

func (o *operator) now() time.Time { return *o.clock.Load() }

// witness keeps what is known of the log.
type witness struct{ atomic.Value }

// Load implements publisher.EpochStore.
func (w *witness) Load(context.Context) (publisher.Witness, error) {
	kept, _ := w.Value.Load().(publisher.Witness)
	return kept, nil
}

// Save implements publisher.EpochStore.
func (w *witness) Save(_ context.Context, now publisher.Witness) error {
	w.Store(now)
	return nil
}

// operate does what happens in a cluster. The operator begins with the first that does.
func (s *story) operate(ctx context.Context, d *datadriven.TestData) error {
	o := s.operator
	if o == nil {
		began := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
		o = &operator{log: s.store.Open(), stop: func() {}}
		o.clock.Store(&began)
		namespaces, _ := d.Arg("namespaces")
		headers, _ := d.Arg("headers")
		routedBy, _ := d.Arg("meshes")
		o.namespaces, o.headers, o.routedBy, o.runsUnits = namespaces.Vals, headers.Vals, routedBy.Vals, d.HasArg("workflows")
		if d.HasArg("refuse-policies") {
			o.policies.Workloads = policies.Refuse
		}
		var err error
		if o.cluster, err = fakecluster.New(o.now); err == nil {
			err = o.lead(ctx)
		}
		if err != nil {
			return err
		}
		s.operator = o
		s.t.Cleanup(func() { o.stop() })
	}
	switch d.Cmd {
	case "operator":
		return nil
	case "objects", "baseline", "sandbox", "group":
		return o.objects(ctx, d)
	case "delete":
		return o.delete(ctx, d)
	case "rollout":
		return o.rollout(ctx)
	case "unit":
		return o.unit(ctx, d)
	case "clock":
		passes, err := time.ParseDuration(d.CmdArgs[0].Key)
		later := o.now().Add(passes)
		o.clock.Store(&later)
		return err
	case "leave":
		o.down = true
		o.stop()
		return nil
	case "lead":
		o.stop()
		return o.lead(ctx)
	case "lose":
		s.store.Lose()
		return wait.Until(ctx, patience, "another log begins", func() error {
			_, err := s.log.Tip(ctx)
			return err
		})
	case "uninstall":
		return o.uninstall(ctx)
	}
	return fmt.Errorf("%q is no command", d.Cmd)
}

// config is that of the controllers.
func (o *operator) config() kinds.Config {
	c := kinds.Config{
		Needs:      member.Needs{Access: apply.Access{Now: o.now}, Publisher: o.publisher},
		Namespaces: o.namespaces, OperatorNamespace: operatorNamespace, AuthorsAsked: true,
		Dial:       func(context.Context, string) error { return nil },
		KeyHeaders: publish.KeyHeaders(o.headers, operatorNamespace), PolicySettings: o.policies,
	}
	if o.runsUnits {
		c.Workflows = o.workflows()
	}
	return c
}

// lead begins with controllers and a publisher that know nothing yet, and waits until they
// have been through everything. What the publisher wants looked at again is so in any case.
func (o *operator) lead(ctx context.Context) error {
	objects := publish.NewObjects(o.cluster.Client)
	objects.Live = o.cluster.Client
	var err error
	o.publisher, err = publisher.New(publisher.Config{
		Log: o.log, Epochs: &o.witness, Clock: o.now, Logger: slog.New(slog.DiscardHandler),
		Objects: objects.Keys, There: objects.There, Refill: objects.Refill,
	})
	config := o.config()
	if err == nil {
		err = o.addMeshes(&config, objects.Again)
	}
	if err == nil {
		err = o.cluster.Lead(config)
	}
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.Background())
	for _, again := range objects.Again {
		go func() {
			for {
				select {
				case <-again:
				case <-running.Done():
					return
				}
			}
		}()
	}
	var working sync.WaitGroup
	working.Go(func() { _ = o.publisher.Run(running) }) // It returns nil, whatever happens to the log.
	for _, m := range o.meshes {
		working.Go(func() { _ = m.adapter.Start(running) }) // It returns when running ends.
	}
	o.down, o.stop = false, func() { cancel(); working.Wait() }
	tip, err := o.log.Tip(ctx)
	return errors.Join(err, o.whole(ctx, tip.Seq))
}

// whole waits until the log says that it is whole, later than at a place.
func (o *operator) whole(ctx context.Context, later uint64) error {
	for {
		said, ok, err := o.log.Newest(ctx, event.Log)
		if ok && said.Pos.Seq > later {
			return err
		}
		if err = o.settle(ctx); err != nil && ctx.Err() != nil {
			return err
		}
	}
}

// mostRounds is how often everything is looked at before it is at rest. A sandbox with all of
// its parts takes six rounds.
const mostRounds = 30

// settle has every controller look at every object until nothing is written any more and the
// log is whole.
func (o *operator) settle(ctx context.Context) error {
	var wrong error
	for changes := 0; changes < mostRounds; {
		tip, err := o.log.Tip(ctx)
		writes := o.cluster.Writes()
		if !o.down {
			wrong = o.cluster.Round(ctx)
			if o.publisher.Ready() == nil {
				wrong = errors.Join(wrong, o.meshesLook(ctx))
			}
		}
		err = errors.Join(err, o.cluster.Collect(ctx), ctx.Err())
		now, _ := o.log.Tip(ctx)
		switch {
		case ctx.Err() != nil:
			return errors.Join(err, wrong, o.publisher.Ready())
		case now != tip || writes != o.cluster.Writes():
			changes++
		case o.down:
			return errors.Join(err, wrong)
		case o.publisher.Ready() == nil:
			return errors.Join(err, wrong, o.cluster.EverythingIsSaid(ctx))
		default:
			time.Sleep(time.Millisecond) // The publisher works beside.
		}
	}
	return errors.New("the controllers do not come to rest")
}

// uninstall drains the cluster. The operator works between the drain's passes and never during
// one, so that a story does not depend on how far a pass has come.
func (o *operator) uninstall(ctx context.Context) error {
	turns := turns{Client: o.cluster.Client, pass: make(chan struct{}), next: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		ended <- drain.Run(ctx, drain.Config{
			Client: turns, Wait: patience, Namespace: operatorNamespace, Logger: slog.New(slog.DiscardHandler),
		})
	}()
	for {
		select {
		case err := <-ended:
			return err
		case <-turns.pass:
			if err := o.settle(ctx); err != nil {
				return err
			}
			turns.next <- struct{}{}
		}
	}
}

// turns is a client that waits for its turn before each pass of a drain.
type turns struct {
	client.Client
	pass, next chan struct{}
}

func (t turns) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if list.GetObjectKind().GroupVersionKind().Kind == drain.Kinds()[0]+"List" { // The first that a pass asks for.
		t.pass <- struct{}{}
		<-t.next
	}
	return t.Client.List(ctx, list, options...)
}
