package wire

import (
	"context"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// Log returns the log as the process of this Gate can write it: until it is dead.
func (g *Gate) Log(l eventbus.Log) eventbus.Log { return fenced{l, g} }

// fenced is a log with a writer that may be dead.
type fenced struct {
	eventbus.Log
	gate *Gate
}

// Begin implements eventbus.Log.
func (f fenced) Begin(ctx context.Context, known event.Mark) (event.Mark, error) {
	if f.gate.IsDead() {
		return event.Mark{}, errDead
	}
	return f.Log.Begin(ctx, known)
}

// Restart implements eventbus.Log.
func (f fenced) Restart(ctx context.Context, epoch string) (event.Mark, error) {
	if f.gate.IsDead() {
		return event.Mark{}, errDead
	}
	return f.Log.Restart(ctx, epoch)
}

// Append implements eventbus.Log.
func (f fenced) Append(ctx context.Context, fact event.Fact, last uint64) (event.Mark, error) {
	if f.gate.IsDead() {
		return event.Mark{}, errDead
	}
	if fact.Tombstone() && f.gate.faults.Without == Withdrawals {
		tip, err := f.Log.Tip(ctx)
		return event.Mark{Pos: tip}, err
	}
	mark, err := f.Log.Append(ctx, fact, last)
	if err == nil {
		f.gate.ledger.state(fact.Key, Statement{fact.Tombstone(), f.gate, fact.Cause, ownerOf(fact)})
	}
	return mark, err
}

// Forget implements eventbus.Log.
func (f fenced) Forget(ctx context.Context, floor event.Pos) error {
	if f.gate.IsDead() {
		return errDead
	}
	return f.Log.Forget(ctx, floor)
}
