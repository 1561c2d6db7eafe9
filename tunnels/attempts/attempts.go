// Package attempts implements attempts, pauses and epochs of a session that is kept over many
// connections, as a pure value: when the client connects, under which epoch, and when it gives up.
// The caller owns the clock, the network and the random source; it feeds in events and executes
// the returned Step. Workstations (tunnels/workstation/reconnect) and the agent of a cluster
// (controlplane-link/link) use it.
//
// A Machine waits between attempts: the first after a cut comes at once, then the pause doubles
// from Policy.Shortest. While the cut is recent it stays below Policy.Brisk, since most cuts are
// short and a user is waiting; later it grows to Policy.Longest. Each pause is shortened at
// random, by up to a half or wholly (Policy.FullJitter), so that clients do not reconnect all at
// once.
//
// Epochs only grow. They number the attempts of this Machine.
package attempts

import "time"

// Policy are the pauses of a Machine.
type Policy struct {
	// Shortest and Longest bound the pause between two attempts.
	Shortest, Longest time.Duration
	// Brisk bounds it while a cut is no older than Fresh.
	Brisk, Fresh time.Duration
	// Patience is how long the first connection may take. Failures before that are retried,
	// unless they are final. Endless: every failure is retried.
	Patience time.Duration
	// MaxGap is how far the clock may jump before the session is no longer trusted.
	MaxGap time.Duration
	// FullJitter shortens pauses down to 0 instead of to a half.
	FullJitter bool
}

// Endless is the Patience of a client that never gives up.
const Endless time.Duration = -1

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

// Step is what the caller has to do next. Zero fields require nothing.
type Step struct {
	// Dial: begin an attempt under this epoch, more than 0.
	Dial uint64
	// Aside: keep the present session beside that attempt, for its open connections.
	Aside bool
	// Drop: close the present session or attempt, before anything else.
	Drop bool
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
}

// New returns a Machine that has not begun.
func New(p Policy) *Machine { return &Machine{policy: p} }

// Phase returns the present phase.
func (c *Machine) Phase() Phase { return c.phase }

// Epoch returns the epoch of the newest attempt; 0 before the first.
func (c *Machine) Epoch() uint64 { return c.epoch }

// At reports whether the Machine is in a phase of the newest epoch: events of others are late.
func (c *Machine) At(phase Phase, epoch uint64) bool { return c.phase == phase && c.epoch == epoch }

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

// Welcomed notes that the attempt of an epoch has become a session. It reports whether it has: a
// later attempt may have begun.
func (c *Machine) Welcomed(now time.Time, epoch uint64) bool {
	if !c.At(Dialling, epoch) {
		return false
	}
	c.phase, c.met, c.pauses, c.began = Up, true, 0, now
	return true
}

// Failed notes that the attempt of an epoch failed. final: trying again would not help a waiting
// user; it ends a Machine that was never up and is not Endless. chance is a number from 0 to 1.
func (c *Machine) Failed(now time.Time, epoch uint64, final bool, chance float64) Step {
	if !c.At(Dialling, epoch) {
		return Step{}
	}
	if endless := c.policy.Patience < 0; !c.met && !endless && (final || now.Sub(c.began) >= c.policy.Patience) {
		c.phase = Over
		return Step{End: true}
	}
	if final { // It may be repaired in the meantime: a new token, another right.
		return c.wait(now, c.policy.Longest, chance)
	}
	return c.wait(now, c.pause(now), chance)
}

// Deferred notes that the attempt of an epoch failed and that the next one should not begin
// before a time has passed. It waits for that and, so that clients with the same time do not come
// all at once, for up to a quarter more.
func (c *Machine) Deferred(now time.Time, epoch uint64, after time.Duration, chance float64) Step {
	if !c.At(Dialling, epoch) {
		return Step{}
	}
	return c.waitUntil(now.Add(after + time.Duration(chanceOf(chance)*float64(after/4))))
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

// wait returns a Step that waits at most d, and at least half of it or, with FullJitter, not at all.
func (c *Machine) wait(now time.Time, d time.Duration, chance float64) Step {
	least := d / 2
	if c.policy.FullJitter {
		least = 0
	}
	return c.waitUntil(now.Add(least + time.Duration(chanceOf(chance)*float64(d-least))))
}

func (c *Machine) waitUntil(until time.Time) Step {
	c.pauses++
	c.phase, c.until = Waiting, until
	return Step{At: until}
}

func chanceOf(n float64) float64 { return min(max(n, 0), 1) }

// Lost notes that the session of an epoch ended. comeBack is false when the server reported that
// no server there would accept the client. It reports whether that was the present session.
func (c *Machine) Lost(now time.Time, epoch uint64, comeBack bool, chance float64) (Step, bool) {
	if !c.At(Up, epoch) {
		return Step{}, false
	}
	c.began = now
	if !comeBack {
		return c.wait(now, c.policy.Longest, chance), true
	}
	return c.wait(now, c.policy.Shortest, chance), true
}

// Leaving notes that the server of an epoch drains, and will end its session. The next attempt
// begins at once, and the session is used until another is up.
func (c *Machine) Leaving(now time.Time, epoch uint64) Step {
	if !c.At(Up, epoch) {
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
// a long gap the session is not used again, because the server has ended it. It reports whether
// a session or attempt was replaced.
func (c *Machine) Slept(now time.Time, gap time.Duration) (Step, bool) {
	if gap <= c.policy.MaxGap || c.phase == Over || c.epoch == 0 {
		return Step{}, false
	}
	return c.Restart(now), true
}

// Moved notes that the machine's network changed: a waiting attempt begins at once, and an
// attempt over the old network would only time out. It reports whether one begins.
func (c *Machine) Moved(now time.Time) (Step, bool) {
	if c.phase != Waiting && c.phase != Dialling || c.epoch == 0 {
		return Step{}, false
	}
	return c.Restart(now), true
}

// Restart drops the session or attempt that there is, and begins an attempt.
func (c *Machine) Restart(now time.Time) Step {
	drop := c.phase != Waiting
	c.began, c.pauses = now, 0
	step := c.dial()
	step.Drop = drop
	return step
}
