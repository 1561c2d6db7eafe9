package explain

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

// story is the scenario of one sandbox, with the expected answer for its requests at the end. An
// error of a step is kept, and the steps after it do nothing.
type story struct {
	*World
	ctx    context.Context
	random *rand.Rand
	err    error

	baseline, sandboxName, key string
	// now is the newest fact of each key that the story stated, and last the place
	// of the newest of all.
	now  map[event.Key]event.Fact
	last event.Pos

	want want
	// before is a place at which all was well; zero when there is none.
	before event.Pos
	// ask is the question.
	ask *routingv1.ExplainRequest
	// cold asks the route server with an incomplete log.
	cold bool
	held *pod
}

// want is the expected answer.
type want struct {
	verdict routingv1.Verdict
	// because are the sequences of the events that made it so.
	because []uint64
	// contains lists texts that must be in the summary.
	contains []string
	// holder is the sandbox that holds the decision, when another lost it.
	holder  string
	lagging []string
	// key, keyFrom, baseline and port are what the question is about.
	key, keyFrom, baseline string
	port                   uint32
}

const forked = "ForkedWorkload"

// sandbox begins the scenario of a sandbox with a new key.
func (s *story) sandbox(name string) {
	s.sandboxName, s.key = name, "key-"+name
	s.now = map[event.Key]event.Fact{}
}

func (s *story) member(sandbox string) event.Key {
	return event.Workload(forked, namespace, sandbox+"-"+s.baseline)
}

// observe states the observation of the story's fork, with a change.
func (s *story) observe(change func(*factv1.WorkloadObserved)) uint64 {
	return s.observeOf(s.sandboxName, s.baseline, change)
}

func (s *story) observeOf(sandbox, baseline string, change func(*factv1.WorkloadObserved)) uint64 {
	name := sandbox + "-" + s.baseline
	pair := &factv1.ServicePair{From: baseline, To: name + "-svc", ClusterIp: "10.97.1.1"}
	for _, port := range []uint32{80, 9090} {
		pair.Ports = append(pair.Ports, &factv1.PortPair{Port: port, WorkloadPort: ports[port]})
	}
	o := &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: forked, Namespace: namespace, Name: name, Uid: "uid-" + name},
		Created:  &timestamppb.Timestamp{Seconds: 1_000},
		Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: namespace, Name: baseline},
		Services: []*factv1.ServicePair{pair},
		Ready:    true, DevMeshPresent: slices.Contains(meshed, baseline),
	}
	if change != nil {
		change(o)
	}
	return s.publish(event.Workload(forked, namespace, name), o, "signadot-controller")
}

// declare states that the story's key has these sandboxes as members, or the
// story's own.
func (s *story) declare(sandboxes ...string) uint64 {
	if len(sandboxes) == 0 {
		sandboxes = []string{s.sandboxName}
	}
	d := &factv1.RoutingDeclared{RoutingKey: s.key, Owner: &factv1.ObjectRef{Kind: "SignadotSandbox", Name: s.sandboxName}}
	for _, name := range sandboxes {
		d.Members = append(d.Members, &factv1.Member{
			Kind: forked, Namespace: namespace, Name: name + "-" + s.baseline, Sandbox: name,
		})
	}
	return s.publish(event.RoutingKey(s.key), d, "kubectl-edit")
}

// withdraw ends what a key stood for.
func (s *story) withdraw(key event.Key, manager string) uint64 {
	data, _ := event.Withdrawal(key)
	return s.publish(key, data, manager)
}

// publish publishes a fact, and sometimes facts that change nothing.
func (s *story) publish(key event.Key, data proto.Message, manager string) uint64 {
	f := event.Fact{Key: key, Data: data, Time: time.Now(), Cause: event.Cause{
		Kind: "SignadotSandbox", Name: s.sandboxName, UID: "uid-" + s.sandboxName, Generation: int64(len(s.now) + 1), Manager: manager,
	}}
	seq := s.record(f)
	s.noise()
	return seq
}

func (s *story) record(f event.Fact) uint64 {
	if s.err != nil {
		return 0
	}
	s.last, s.err = s.state(s.ctx, f)
	s.now[f.Key] = f
	return s.last.Seq
}

// noise states facts again, as a new leader does, without another cause.
func (s *story) noise() {
	if s.random == nil {
		return
	}
	for range s.random.IntN(3) {
		for _, f := range s.now {
			f.Cause = event.Cause{Kind: "RoutingConfig", Namespace: namespace, Name: "restated", Manager: "signadot-controller-manager"}
			s.record(f)
			break
		}
	}
}

// other is a sandbox of this story beside the first.
func (s *story) other(i int) string { return fmt.Sprintf("%s-b%d", s.sandboxName, i) }
