// Package sandboxes generates the events of a cluster over time, as facts: sandboxes are created,
// changed and deleted, their forks become ready and fail, route groups name forks that other
// sandboxes own, and known facts are published again. The same seed produces the same facts.
package sandboxes

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// Cluster is a cluster in which things happen. Make one with New.
type Cluster struct {
	// Forks, Keys and Baselines are how many different ones there can be.
	Forks, Keys, Baselines int

	random *rand.Rand
	now    time.Time
	facts  map[event.Key]event.Fact
	keys   []event.Key // the keys of facts, in order of arrival
	writes map[event.Key]int64
}

// New returns an empty cluster of ordinary size: 300 forks, 200 routing keys, 40
// baselines.
func New(seed uint64) *Cluster {
	return &Cluster{
		Forks: 300, Keys: 200, Baselines: 40,
		random: rand.New(rand.NewPCG(seed, 0x5a)),
		now:    time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC),
		facts:  map[event.Key]event.Fact{}, writes: map[event.Key]int64{},
	}
}

// Next returns the next fact.
func (c *Cluster) Next() event.Fact {
	c.now = c.now.Add(time.Duration(c.random.IntN(3000)) * time.Millisecond)
	switch n := c.random.IntN(100); {
	case n < 40:
		return c.observe(c.random.IntN(c.Forks))
	case n < 50:
		return c.withdraw(event.Workload(kind, namespace, forkName(c.random.IntN(c.Forks))))
	case n < 80:
		return c.declare(c.random.IntN(c.Keys))
	case n < 90:
		return c.withdraw(event.RoutingKey(keyName(c.random.IntN(c.Keys))))
	}
	return c.again()
}

// Present returns the newest fact of each key that is not withdrawn, sorted by
// key: what a writer states when it states everything again.
func (c *Cluster) Present() []event.Fact {
	var out []event.Fact
	for _, key := range slices.Sorted(maps.Keys(c.facts)) {
		if f := c.facts[key]; !f.Tombstone() {
			out = append(out, f)
		}
	}
	return out
}

// Complete returns the fact that marks the table folded from a floor as whole; 0 is the beginning
// of the log.
func Complete(floor uint64) event.Fact {
	return event.Fact{Key: event.Log, Data: &factv1.Complete{Reason: "first", Floor: floor}}
}

// Floor returns the fact at which a log may begin.
func Floor() event.Fact {
	return event.Fact{Key: event.LogFloor, Data: &factv1.Floor{Reason: "count"}}
}

const (
	kind      = "ForkedWorkload"
	namespace = "shop"
)

func forkName(i int) string     { return fmt.Sprintf("feature-%d-service", i) }
func keyName(i int) string      { return fmt.Sprintf("k%012d", i) }
func baselineName(i int) string { return fmt.Sprintf("service-%d", i) }

// record records a fact and returns it with its author.
func (c *Cluster) record(key event.Key, data proto.Message) event.Fact {
	c.writes[key]++
	f := event.Fact{Key: key, Data: data, Time: c.now, Cause: event.Cause{
		Kind: "SignadotSandbox", Name: fmt.Sprintf("feature-%d", c.random.IntN(c.Keys)),
		UID: fmt.Sprintf("%08d-0000-4000-8000-000000000000", c.random.IntN(c.Keys)), Generation: c.writes[key],
		Manager: []string{"kubectl-client-side-apply", "signadot-cli", "argocd-controller"}[c.random.IntN(3)],
	}}
	if c.writes[key] == 1 {
		c.keys = append(c.keys, key)
	}
	c.facts[key] = f
	return f
}

func (c *Cluster) again() event.Fact {
	if len(c.keys) == 0 {
		return c.declare(0)
	}
	f := c.facts[c.keys[c.random.IntN(len(c.keys))]]
	f.Time = c.now
	return f
}

func (c *Cluster) withdraw(key event.Key) event.Fact {
	data, _ := event.Withdrawal(key)
	return c.record(key, data)
}

func (c *Cluster) declare(i int) event.Fact {
	d := &factv1.RoutingDeclared{RoutingKey: keyName(i), Owner: &factv1.ObjectRef{Kind: "SignadotSandbox", Name: fmt.Sprintf("feature-%d", i)}}
	for range 1 + c.random.IntN(4) {
		fork := c.random.IntN(c.Forks)
		m := &factv1.Member{Kind: kind, Namespace: namespace, Name: forkName(fork), Sandbox: fmt.Sprintf("feature-%d", fork)}
		if c.random.IntN(4) > 0 { // Otherwise an older manager declared it, or it was never observed.
			m.Baseline, m.Services = c.represents(fork, "")
		}
		d.Members = append(d.Members, m)
	}
	return c.record(event.RoutingKey(d.GetRoutingKey()), d)
}

// represents returns the baseline of a fork, and its Service, which has this address.
func (c *Cluster) represents(fork int, address string) (*factv1.ObjectRef, []*factv1.ServicePair) {
	baseline := baselineName(fork % c.Baselines)
	return &factv1.ObjectRef{Kind: "Deployment", Namespace: namespace, Name: baseline}, []*factv1.ServicePair{{
		From: baseline, To: fmt.Sprintf("feature-%d-%s", fork, baseline), ClusterIp: address,
		Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}},
	}}
}

func (c *Cluster) observe(i int) event.Fact {
	o := &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: kind, Namespace: namespace, Name: forkName(i), Uid: fmt.Sprintf("%08d-1111-4000-8000-000000000000", i)},
		Created:  &timestamppb.Timestamp{Seconds: int64(i)},
		Ready:    c.random.IntN(4) > 0, DevMeshPresent: true,
	}
	o.Baseline, o.Services = c.represents(i, fmt.Sprintf("10.1.%d.%d", c.random.IntN(256), c.random.IntN(256)))
	return c.record(event.Workload(kind, namespace, forkName(i)), o)
}
