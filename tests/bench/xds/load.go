package main

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/translate"
)

// The systems that are measured, and the forms in which they are asked for
// routes.
const (
	ours      = "switchyard"
	encrypted = "switchyard, TLS"
	snapshot  = "go-control-plane"

	inParts = "parts"
	asWhole = "whole"
)

// Load is what one measurement is of: who serves what to how many streams, and
// how much of it changes. Workload number i has the streams with i as their
// rest, and the sandboxes likewise.
type Load struct {
	System, Form                  string
	Streams, Workloads, Sandboxes int
	PerSecond                     int
	Lasting                       time.Duration
}

// name is what the figures call it.
func (l Load) name() string {
	shape := "spread"
	if l.Workloads == 1 {
		shape = "one"
	}
	return fmt.Sprintf("%s-%d", shape, l.Streams)
}

// changes is how many changes a load makes.
func (l Load) changes() int { return int(l.Lasting.Seconds() * float64(l.PerSecond)) }

// streamsOf is how many streams a workload has.
func (l Load) streamsOf(workload int) int {
	n := l.Streams / l.Workloads
	if workload < l.Streams%l.Workloads {
		n++
	}
	return n
}

const (
	namespace = "shop"
	forkKind  = "ForkedWorkload"
	workloads = 50 // when they are spread
)

func workload(i int) table.Workload {
	return table.Workload{Kind: "Deployment", Namespace: namespace, Name: "service-" + strconv.Itoa(i)}
}

// names gives what a stream of a workload asks for: the type and the names.
func (l Load) names(i int) (typeURL string, names []string) {
	if l.Form == inParts {
		return translate.PartType, translate.PartNames(workload(i))
	}
	return translate.RouteType, []string{translate.RouteName(workload(i))}
}

// present gives the facts that are there before anything is measured: one fork
// of each workload, and the sandboxes.
func (l Load) present() []event.Fact {
	var out []event.Fact
	for i := range l.Workloads {
		w := workload(i)
		out = append(out, event.Fact{Key: event.Workload(forkKind, namespace, w.Name), Time: time.Now(), Data: &factv1.WorkloadObserved{
			Workload: &factv1.ObjectRef{Kind: forkKind, Namespace: namespace, Name: w.Name, Uid: fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)},
			Created:  timestamppb.New(time.Unix(int64(i), 0)),
			Baseline: &factv1.ObjectRef{Kind: w.Kind, Namespace: namespace, Name: w.Name},
			Services: []*factv1.ServicePair{{
				From: w.Name, To: fmt.Sprintf("feature-%s-%08x", w.Name, i), ClusterIp: fmt.Sprintf("10.0.0.%d", i),
				Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}},
			}},
			Ready: true,
		}})
	}
	for i := range l.Sandboxes {
		out = append(out, l.declared(fmt.Sprintf("k%012d", i), i))
	}
	return append(out, event.Fact{Key: event.Log, Time: time.Now(), Data: &factv1.Complete{Reason: "first"}})
}

func (l Load) declared(key string, i int) event.Fact {
	return event.Fact{Key: event.RoutingKey(key), Time: time.Now(), Data: &factv1.RoutingDeclared{RoutingKey: key, Members: []*factv1.Member{{
		Kind: forkKind, Namespace: namespace, Name: workload(i % l.Workloads).Name, Sandbox: fmt.Sprintf("feature-%d", i),
	}}}}
}

// stay is how many changes later a sandbox that came goes again.
const stay = 50

// change gives the fact of a change, and the workload whose routes it changes:
// sandboxes come, and from the time when some have, one goes for each that comes.
func (l Load) change(n int) (event.Fact, int) {
	sandbox := n
	if n >= stay {
		sandbox = stay + (n-stay)/2
	}
	goes := n >= stay && (n-stay)%2 == 1
	if goes {
		sandbox -= stay
	}
	key := fmt.Sprintf("c%012d", sandbox)
	if goes {
		return event.Fact{Key: event.RoutingKey(key), Time: time.Now(), Data: &factv1.RoutingWithdrawn{RoutingKey: key}}, sandbox % l.Workloads
	}
	return l.declared(key, sandbox), sandbox % l.Workloads
}
