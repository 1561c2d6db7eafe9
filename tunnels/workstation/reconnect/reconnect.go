// Package reconnect implements the reconnect state machine of a workstation as a pure value: it
// combines attempts, pauses and epochs (tunnels/attempts) with the tunnels that the workstation
// declares. The caller owns the clock, the network and the random source; it feeds in events and
// executes the returned Step.
//
// After every Welcome the whole declaration is sent again, and replaces the proxy's map.
package reconnect

import (
	"slices"
	"time"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/attempts"
)

// Policy is the policy of a Machine.
type Policy struct {
	attempts.Policy
	// TakeBack is for how long a tunnel that another session took over must have had no session
	// before it is taken back: longer than a short cut of that session. It doubles, up to a
	// minute, each time that the tunnel is taken over again without having been seen in use: then
	// both sessions may be running, and something else keeps requests away.
	TakeBack time.Duration
}

// DefaultPolicy returns the Policy of workstations.
func DefaultPolicy() Policy {
	return Policy{attempts.Policy{
		Shortest: 100 * time.Millisecond, Longest: 5 * time.Second,
		Brisk: 500 * time.Millisecond, Fresh: time.Minute,
		Patience: 30 * time.Second, MaxGap: 10 * time.Second,
	}, 5 * time.Second}
}

// Phase is the state of a Machine.
type Phase = attempts.Phase

// The phases, as in tunnels/attempts.
const (
	Waiting  = attempts.Waiting
	Dialling = attempts.Dialling
	Up       = attempts.Up
	Over     = attempts.Over
)

// Tunnel names an external workload that the workstation serves.
type Tunnel struct {
	Namespace, Name string
}

// Step is what the caller has to do next. Zero fields require nothing.
type Step struct {
	attempts.Step
	// Declare: send this on the present session.
	Declare *tunnelv1.Declare
}

// Machine is the state machine of one session. Make one with New.
type Machine struct {
	*attempts.Machine
	policy Policy

	wanted   []Tunnel
	revision uint64 // of the declarations of this connection
	answers  map[Tunnel]*tunnelv1.TunnelState
	lonely   map[Tunnel]time.Time // tunnels that were taken over, and since when no session serves them
	retaken  map[Tunnel]int       // how often each was taken back since another session was seen to serve it
	takes    map[Tunnel]bool      // tunnels that are taken from other sessions: true until that is answered
	leftOut  map[Tunnel]bool      // taken back: the last declaration is without them, the next has them again
}

// New returns a Machine that has not begun.
func New(p Policy) *Machine {
	return &Machine{Machine: attempts.New(p.Policy), policy: p, answers: map[Tunnel]*tunnelv1.TunnelState{}, lonely: map[Tunnel]time.Time{}, retaken: map[Tunnel]int{}, takes: map[Tunnel]bool{}, leftOut: map[Tunnel]bool{}}
}

// Begin returns the first attempt.
func (c *Machine) Begin(now time.Time) Step { return Step{Step: c.Machine.Begin(now)} }

// Welcomed notes that the attempt of an epoch has become a session.
func (c *Machine) Welcomed(now time.Time, epoch uint64) Step {
	if !c.Machine.Welcomed(now, epoch) {
		return Step{}
	}
	c.revision = 0
	clear(c.answers)
	clear(c.leftOut)
	return Step{Declare: c.declare()}
}

// declare returns the whole declaration, under a new revision.
func (c *Machine) declare() *tunnelv1.Declare {
	c.revision++
	d := &tunnelv1.Declare{Revision: c.revision}
	for _, t := range c.wanted {
		if c.leftOut[t] {
			continue
		}
		d.Tunnels = append(d.Tunnels, &tunnelv1.TunnelWanted{Namespace: t.Namespace, Name: t.Name, Take: c.takes[t]})
	}
	return d
}

// Failed notes that the attempt of an epoch failed, as attempts.Machine.Failed does.
func (c *Machine) Failed(now time.Time, epoch uint64, final bool, chance float64) Step {
	return Step{Step: c.Machine.Failed(now, epoch, final, chance)}
}

// Lost notes that the session of an epoch ended, as attempts.Machine.Lost does.
func (c *Machine) Lost(now time.Time, epoch uint64, comeBack bool, chance float64) Step {
	return c.without(c.Machine.Lost(now, epoch, comeBack, chance))
}

// without returns a step; if the session has ended, its answers are forgotten.
func (c *Machine) without(step attempts.Step, ended bool) Step {
	if ended {
		clear(c.answers)
	}
	return Step{Step: step}
}

// Leaving notes that the proxy of an epoch drains, as attempts.Machine.Leaving does.
func (c *Machine) Leaving(now time.Time, epoch uint64) Step {
	return Step{Step: c.Machine.Leaving(now, epoch)}
}

// Due returns the next attempt, if its time has come.
func (c *Machine) Due(now time.Time) Step { return Step{Step: c.Machine.Due(now)} }

// Slept notes that the clock jumped by gap, as attempts.Machine.Slept does.
func (c *Machine) Slept(now time.Time, gap time.Duration) Step {
	return c.without(c.Machine.Slept(now, gap))
}

// Moved notes that the machine's network changed, as attempts.Machine.Moved does.
func (c *Machine) Moved(now time.Time) Step { return c.without(c.Machine.Moved(now)) }

// MaxTunnels is how many tunnels a proxy accepts of a workstation: it ends a session that
// declares more.
const MaxTunnels = 256

// Want replaces the wanted tunnels; of too many, the first by name are used. Those in take are
// taken from other users, each once, however often Want names it.
func (c *Machine) Want(tunnels []Tunnel, take ...Tunnel) Step {
	for _, t := range take {
		if _, known := c.takes[t]; !known {
			c.takes[t] = true
		}
	}
	tunnels = slices.Clone(tunnels)
	slices.SortFunc(tunnels, func(a, b Tunnel) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})
	tunnels = slices.Compact(tunnels)
	tunnels = tunnels[:min(len(tunnels), MaxTunnels)]
	if slices.Equal(tunnels, c.wanted) {
		return Step{}
	}
	c.wanted = tunnels
	clear(c.lonely)
	clear(c.retaken)
	if c.Phase() != Up {
		return Step{}
	}
	return Step{Declare: c.declare()}
}

// Wants reports whether a tunnel is wanted.
func (c *Machine) Wants(t Tunnel) bool { return slices.Contains(c.wanted, t) }

// Answered notes the answer to a declaration of an epoch. An answer to an earlier declaration is
// ignored, since the answer to its successor follows.
func (c *Machine) Answered(epoch uint64, d *tunnelv1.Declared) Step {
	if !c.At(Up, epoch) || d.GetRevision() != c.revision {
		return Step{}
	}
	clear(c.answers)
	for _, t := range d.GetTunnels() {
		of := Tunnel{t.GetNamespace(), t.GetName()}
		c.answers[of] = t
		if t.GetOpen() && c.takes[of] {
			c.takes[of] = false
		}
	}
	if len(c.leftOut) == 0 {
		return Step{}
	}
	clear(c.leftOut)
	return Step{Declare: c.declare()}
}

// longestTakeBack is the upper bound of the growing Policy.TakeBack.
const longestTakeBack = time.Minute

// Brought takes back tunnels that another session took over and that no session has served for
// Policy.TakeBack. It is called periodically; by reports whether a session serves a tunnel. To
// take a tunnel back the Machine declares without it, then with it again: a proxy gives it to this
// session if it is free by then, or held by an earlier session of the user.
func (c *Machine) Brought(now time.Time, by func(Tunnel) bool) Step {
	if c.Phase() != Up || len(c.leftOut) > 0 {
		return Step{}
	}
	for _, t := range c.wanted {
		since, is := c.lonely[t]
		switch {
		case c.answers[t].GetRefused().GetReason() != tunnelv1.Reason_REASON_TAKEN:
			delete(c.lonely, t)
		case by(t):
			delete(c.lonely, t)
			delete(c.retaken, t)
		case !is:
			c.lonely[t] = now
		case now.Sub(since) >= min(c.policy.TakeBack<<min(c.retaken[t], 8), max(c.policy.TakeBack, longestTakeBack)):
			delete(c.lonely, t)
			c.retaken[t]++
			c.leftOut[t] = true
		}
	}
	if len(c.leftOut) == 0 {
		return Step{}
	}
	return Step{Declare: c.declare()}
}

// Answer returns the proxy's answer for a tunnel; nil while there is none.
func (c *Machine) Answer(t Tunnel) *tunnelv1.TunnelState { return c.answers[t] }
