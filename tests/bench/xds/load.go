package main

import (
	"fmt"
	"time"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/xds/translate"
)

// The measured systems, and the forms of subscriptions.
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

// shop is what the load is of.
func (l Load) shop() frame.Shop { return frame.Shop(l.Workloads) }

// names returns the subscription of a stream of a workload: the type and the names.
func (l Load) names(i int) (typeURL string, names []string) {
	if l.Form == inParts {
		return translate.PartType, translate.PartNames(l.shop().Workload(i))
	}
	return translate.RouteType, []string{translate.RouteName(l.shop().Workload(i))}
}

// stay is how many changes later a sandbox that came goes again.
const stay = 50

// change returns the fact of a change, and the workload with the changed routes: sandboxes come,
// and from the time when some have, one goes for each that comes.
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
		return frame.Withdrawn(key), sandbox % l.Workloads
	}
	return l.shop().Declared(key, sandbox), sandbox % l.Workloads
}
