package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/logtest"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// models makes the stores that are spoilt: of a few hundred events, with a floor
// below which all was forgotten. The bus of the first was stopped, that of the
// second killed when the witness had caught up, and that of the third killed
// within the tenth of a second in which the witness is behind.
func (c Corruptions) models(ctx context.Context) ([]model, error) {
	ends := []struct {
		name   string
		end    func(*Bus)
		caught bool
	}{{"stopped", (*Bus).Stop, true}, {"killed", (*Bus).Kill, true}, {"killed at once", (*Bus).Kill, false}}
	var all []model
	for _, e := range ends {
		m, err := c.model(ctx, e.name, e.end, e.caught)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		all = append(all, m)
	}
	return all, nil
}

func (c Corruptions) model(ctx context.Context, name string, end func(*Bus), caught bool) (model, error) {
	dir, err := os.MkdirTemp(c.Scratch, "model-")
	if err != nil {
		return model{}, err
	}
	m := model{name: name, caught: caught, dir: filepath.Join(dir, "store")}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	bus, log, err := startOpen(ctx, BusConfig{Store: m.dir}, c.Log, dir)
	if err != nil {
		return model{}, err
	}
	defer bus.Kill()
	// The witness is there, wherever the log is by then.
	begun := func() error {
		return bus.Await(ctx, "has a witness", func(s Status) bool { return s.Witnessed > 0 })
	}
	if err := fill(ctx, log, begun); err != nil {
		return model{}, err
	}
	if caught {
		if m.events, err = contents(ctx, log, event.Mark{}); err != nil {
			return model{}, err
		}
		tip := m.events[len(m.events)-1].Pos.Seq
		if err := bus.Await(ctx, "has caught up with its witness", func(s Status) bool { return s.Witnessed == tip }); err != nil {
			return model{}, err
		}
		end(bus)
		return m, nil
	}
	end(bus)
	m.events, err = c.reread(ctx, m.dir)
	return m, err
}

// reread reads the content of a store, without touching it.
func (c Corruptions) reread(ctx context.Context, store string) ([]event.Stored, error) {
	dir, err := os.MkdirTemp(c.Scratch, "reread-")
	if err != nil {
		return nil, err
	}
	defer discard(dir)
	if err := os.CopyFS(filepath.Join(dir, "store"), os.DirFS(store)); err != nil {
		return nil, err
	}
	bus, log, err := startOpen(ctx, BusConfig{Store: filepath.Join(dir, "store")}, c.Log, dir)
	if err != nil {
		return nil, err
	}
	defer bus.Kill()
	if _, err := beginWith(ctx, log, event.Mark{}); err != nil {
		return nil, err
	}
	return contents(ctx, log, event.Mark{})
}

// fill writes a log of 400 events about 60 keys, the first 150 of which it
// forgets. It waits for the witness on the way.
func fill(ctx context.Context, log eventbus.Log, begun func() error) error {
	if _, err := beginWith(ctx, log, event.Mark{}); err != nil {
		return err
	}
	last := map[event.Key]uint64{}
	var floor event.Mark
	for n := range 400 {
		fact := logtest.Fact(fmt.Sprint("key", n%60), n)
		if n == 150 {
			fact = event.Fact{Key: event.LogFloor, Time: time.Unix(0, 0), Data: &factv1.Floor{}}
		}
		mark, err := log.Append(ctx, fact, last[fact.Key])
		if err != nil {
			return err
		}
		last[fact.Key] = mark.Seq
		if n == 150 {
			floor = mark
		}
		if n == 250 {
			if err := errors.Join(log.Forget(ctx, floor.Pos), begun()); err != nil {
				return err
			}
		}
	}
	kept, err := log.Kept(ctx)
	if err == nil && kept.Floor.Seq != floor.Seq {
		err = errors.New("the log did not forget")
	}
	return err
}

// sorted returns the keys of a map in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
