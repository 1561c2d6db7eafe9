package main

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
)

// cluster makes the facts of a cluster in which each sandbox has a routing key
// and forks one workload, and every tenth key is a route group over ten
// sandboxes. Its rules lie on the given number of baselines.
type cluster struct {
	rules, baselines int
}

// ordinary: fifty rules for each baseline. crowded: all on five baselines.
func ordinary(rules int) cluster { return cluster{rules, max(1, rules/50)} }
func crowded(rules int) cluster  { return cluster{rules, min(rules, 5)} }

func (c cluster) baseline(i int) table.Workload {
	return table.Workload{Kind: "Deployment", Namespace: "shop", Name: fmt.Sprintf("service-%d", i%c.baselines)}
}

// sandboxes is how many sandboxes make the wanted number of rules, when there
// is a group of ten rules for every ten sandboxes.
func (c cluster) sandboxes() int { return max(1, c.rules/2) }

// facts returns the facts of the whole cluster, as a reader of the log gets them: each with
// separate copies of its texts.
func (c cluster) facts() []event.Recorded {
	var out []event.Recorded
	add := func(data proto.Message) {
		out = append(out, event.Recorded{Pos: event.Pos{Epoch: "bench", Seq: uint64(len(out) + 1)}, Fact: event.Fact{Data: read(data)}})
	}
	n := c.sandboxes()
	for i := range n {
		add(c.observed(i, true))
		add(c.declared(sandboxKey(i), i, 1))
	}
	for i := 0; i < n && c.rules > 1; i += 10 {
		add(c.declared(groupKey(i), i, min(10, n-i)))
	}
	add(&factv1.Complete{Reason: "first"})
	return out
}

// read returns a message as it comes out of the log.
func read(m proto.Message) proto.Message {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err) // these messages are the benchmark's own
	}
	out := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(b, out); err != nil {
		panic(err)
	}
	return out
}

// identity is that of one rule.
type identity struct {
	baseline table.Workload
	key      string
}

// appendBaseline and appendKey write the identity of the i-th rule: first come
// those of the sandboxes' own keys, then those of the groups.

func (c cluster) appendBaseline(to []byte, i int) []byte {
	if n := c.sandboxes(); i >= n {
		i -= n
	}
	return strconv.AppendInt(append(to, "service-"...), int64(i%c.baselines), 10)
}

func (c cluster) appendKey(to []byte, i int) []byte {
	if n := c.sandboxes(); i >= n {
		return append(to, groupKey((i-n)/10*10)...)
	}
	return append(to, sandboxKey(i)...)
}

// A routing key has 13 characters.
func sandboxKey(i int) string { return padded("k", 12, i) }
func groupKey(i int) string   { return padded("group", 8, i) }

func padded(prefix string, digits, i int) string {
	b := strconv.AppendInt(make([]byte, 0, 32), int64(i), 10)
	return prefix + "000000000000"[:digits-len(b)] + string(b)
}

func (c cluster) declared(key string, first, members int) *factv1.RoutingDeclared {
	d := &factv1.RoutingDeclared{RoutingKey: key}
	for i := first; i < first+members; i++ {
		o := c.observed(i, true)
		o.Services[0].ClusterIp = "" // declarations have none
		d.Members = append(d.Members, &factv1.Member{
			Kind: "ForkedWorkload", Namespace: "shop", Name: forkName(i), Sandbox: fmt.Sprintf("feature-%d", i),
			Baseline: o.GetBaseline(), Services: o.GetServices(),
		})
	}
	return d
}

func forkName(i int) string { return fmt.Sprintf("feature-%d-service", i) }

func (c cluster) observed(i int, ready bool) *factv1.WorkloadObserved {
	b := c.baseline(i)
	return &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: "shop", Name: forkName(i), Uid: fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)},
		Created:  &timestamppb.Timestamp{Seconds: int64(i)},
		Baseline: &factv1.ObjectRef{Kind: b.Kind, Namespace: b.Namespace, Name: b.Name},
		Services: []*factv1.ServicePair{{
			From: b.Name, To: fmt.Sprintf("feature-%d-service-%08x", i, i), ClusterIp: fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255),
			Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}},
		}},
		Ready: ready,
	}
}
