// Package reconnect implements the reconnect state machine of a workstation as a pure value: when it
// connects, under which epoch, which tunnels it declares, and when it gives up. The caller owns
// the clock, the network and the random source; it feeds in events and executes the returned
// Step.
//
// A Machine waits between attempts: the first after a cut comes at once, then the pause doubles
// from Policy.Shortest. While the cut is recent it stays below Policy.Brisk, since most cuts are
// short and a user is waiting; later it grows to Policy.Longest. Each pause is shortened at
// random, by up to a half, so that workstations do not reconnect all at once.
//
// After every Welcome the whole declaration is sent again, and replaces the proxy's map. Epochs
// only grow.
package reconnect

import (
	"slices"
	"time"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// Policy are the pauses of a Machine.
type Policy struct {
	// Shortest and Longest bound the pause between two attempts.
	Shortest, Longest time.Duration
	// Brisk bounds it while a cut is no older than Fresh.
	Brisk, Fresh time.Duration
	// Patience is how long the first connection may take. Failures before that are retried,
	// unless they are final.
	Patience time.Duration
	// MaxGap is how far the clock may jump before the session is no longer trusted.
	MaxGap time.Duration
	// TakeBack is for how long a tunnel that another session took over must have had no session
	// before it is taken back: longer than a short cut of that session. It doubles, up to a
	// minute, each time that the tunnel is taken over again without having been seen in use: then
	// both sessions may be running, and something else keeps requests away.
	TakeBack time.Duration
}

// DefaultPolicy returns the Policy of workstations.
func DefaultPolicy() Policy {
	return Policy{
		Shortest: 100 * time.Millisecond, Longest: 5 * time.Second,
		Brisk: 500 * time.Millisecond, Fresh: time.Minute,
		Patience: 30 * time.Second, MaxGap: 10 * time.Second, TakeBack: 5 * time.Second,
	}
}

// Phase is the state of a Machine.
type Phase int

// The phases.
const (
	// Waiting for the next attempt.
	Waiting Phase = iota
	// Dialling: an attempt is under way.
	Dialling
	// Up: there is a session.
	Up
	// Over: it ends, see Step.End.
	Over
)

// Tunnel names an external workload that the workstation serves.
type Tunnel struct {
	Namespace, Name string
}

// Step is what the caller has to do next. Zero fields require nothing.
type Step struct {
	// Dial: begin an attempt under this epoch, more than 0.
	Dial uint64
	// Aside: keep the present session beside that attempt, for its open connections.
	Aside bool
	// Drop: close the present session or attempt, before anything else.
	Drop bool
	// Declare: send this on the present session.
	Declare *tunnelv1.Declare
	// At: call Due at this time.
	At time.Time
	// End: the Machine ends, with the error of the last failure.
	End bool
}

// Machine is the state machine of one session. Make one with New.
type Machine struct {
	policy Policy
	phase  Phase
	epoch  uint64
	began  time.Time // when it began, or was last up
	until  time.Time // when waiting: the next attempt
	pauses int       // since it was last up
	met    bool      // it was up at least once

	wanted   []Tunnel
	revision uint64 // of the declarations of this connection
	answers  map[Tunnel]*tunnelv1.TunnelState
	lonely   map[Tunnel]time.Time // tunnels that were taken over, and since when no session serves them
	retaken  map[Tunnel]int       // how often each was taken back since another session was seen to serve it
	takes    map[Tunnel]bool      // tunnels that are taken from other users: true until that is answered
	leftOut  map[Tunnel]bool      // taken back: the last declaration is without them, the next has them again
}

// New returns a Machine that has not begun.
func New(p Policy) *Machine {
	return &Machine{policy: p, answers: map[Tunnel]*tunnelv1.TunnelState{}, lonely: map[Tunnel]time.Time{}, retaken: map[Tunnel]int{}, takes: map[Tunnel]bool{}, leftOut: map[Tunnel]bool{}}
}

// Phase returns the present phase.
func (c *Machine) Phase() Phase { return c.phase }

// Epoch returns the epoch of the newest attempt; 0 before the first.
func (c *Machine) Epoch() uint64 { return c.epoch }

// Begin returns the first attempt.
func (c *Machine) Begin(now time.Time) Step {
	c.began = now
	return c.dial()
}

// dial begins an attempt.
func (c *Machine) dial() Step {
	c.phase, c.until = Dialling, time.Time{}
	c.epoch++
	return Step{Dial: c.epoch}
}

// Welcomed notes that the attempt of an epoch has become a session.
func (c *Machine) Welcomed(now time.Time, epoch uint64) Step {
	if c.phase != Dialling || epoch != c.epoch {
		return Step{}
	}
	c.phase, c.met, c.pauses, c.began = Up, true, 0, now
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

// Failed notes that the attempt of an epoch failed. final: trying again would not help a waiting
// user; it ends a Machine that was never up. chance is a number from 0 to 1.
func (c *Machine) Failed(now time.Time, epoch uint64, final bool, chance float64) Step {
	if c.phase != Dialling || epoch != c.epoch {
		return Step{}
	}
	if !c.met && (final || now.Sub(c.began) >= c.policy.Patience) {
		c.phase = Over
		return Step{End: true}
	}
	if final { // It may be repaired in the meantime: a new token, another right.
		return c.wait(now, c.policy.Longest, chance)
	}
	return c.wait(now, c.pause(now), chance)
}

// pause returns the upper bound of the next pause.
func (c *Machine) pause(now time.Time) time.Duration {
	most := c.policy.Longest
	if now.Sub(c.began) < c.policy.Fresh {
		most = min(most, c.policy.Brisk)
	}
	d := c.policy.Shortest
	for range c.pauses {
		if d *= 2; d >= most {
			return most
		}
	}
	return min(d, most)
}

// wait returns a Step that waits at most d, and at least half of it.
func (c *Machine) wait(now time.Time, d time.Duration, chance float64) Step {
	c.pauses++
	c.phase = Waiting
	chance = min(max(chance, 0), 1)
	c.until = now.Add(d/2 + time.Duration(chance*float64(d/2)))
	return Step{At: c.until}
}

// Lost notes that the session of an epoch ended. comeBack is false when the proxy reported that
// no proxy there would accept the workstation.
func (c *Machine) Lost(now time.Time, epoch uint64, comeBack bool, chance float64) Step {
	if c.phase != Up || epoch != c.epoch {
		return Step{}
	}
	c.began = now
	clear(c.answers)
	if !comeBack {
		return c.wait(now, c.policy.Longest, chance)
	}
	return c.wait(now, c.policy.Shortest, chance)
}

// Leaving notes that the proxy of an epoch drains, and will end its session. The next attempt
// begins at once, and the session is used until another is up.
func (c *Machine) Leaving(now time.Time, epoch uint64) Step {
	if c.phase != Up || epoch != c.epoch {
		return Step{}
	}
	c.began = now
	step := c.dial()
	step.Aside = true
	return step
}

// Due returns the next attempt, if its time has come.
func (c *Machine) Due(now time.Time) Step {
	if c.phase != Waiting || c.until.IsZero() {
		return Step{}
	}
	if now.Before(c.until) {
		return Step{At: c.until}
	}
	return c.dial()
}

// Slept notes that the clock jumped by gap: the machine slept, or the process was stopped. After
// a long gap the session is not used again, because the proxy has ended it.
func (c *Machine) Slept(now time.Time, gap time.Duration) Step {
	if gap <= c.policy.MaxGap || c.phase == Over || c.epoch == 0 {
		return Step{}
	}
	return c.restart(now)
}

// Moved notes that the machine's network changed: a waiting attempt begins at once, and an
// attempt over the old network would only time out.
func (c *Machine) Moved(now time.Time) Step {
	if c.phase != Waiting && c.phase != Dialling || c.epoch == 0 {
		return Step{}
	}
	return c.restart(now)
}

// restart drops the session or attempt that there is, and begins an attempt.
func (c *Machine) restart(now time.Time) Step {
	drop := c.phase != Waiting
	c.began, c.pauses = now, 0
	clear(c.answers)
	step := c.dial()
	step.Drop = drop
	return step
}

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
	if c.phase != Up {
		return Step{}
	}
	return Step{Declare: c.declare()}
}

// Wanted returns the tunnels that are wanted, sorted.
func (c *Machine) Wanted() []Tunnel { return slices.Clone(c.wanted) }

// Wants reports whether a tunnel is wanted.
func (c *Machine) Wants(t Tunnel) bool { return slices.Contains(c.wanted, t) }

// Answered notes the answer to a declaration of an epoch. An answer to an earlier declaration is
// ignored, since the answer to its successor follows.
func (c *Machine) Answered(epoch uint64, d *tunnelv1.Declared) Step {
	if c.phase != Up || epoch != c.epoch || d.GetRevision() != c.revision {
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
// take a tunnel back the Machine declares without it, then with it again: a proxy then gives it to
// this session.
func (c *Machine) Brought(now time.Time, by func(Tunnel) bool) Step {
	if c.phase != Up || len(c.leftOut) > 0 {
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
