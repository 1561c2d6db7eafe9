package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/routeserver/history"
	"switchyard.dev/routeserver/history/fold"
)

// rebuilt is what another process made of the log.
type rebuilt struct {
	tables map[uint64]print
	took   map[uint64]time.Duration
	// ready is how long the past took to be read, naive how long the newest table
	// takes without checkpoints.
	ready, naive time.Duration
	checkpoints  int
	farthest     uint64
}

// elsewhere lets a process of its own rebuild versions, from the log alone.
func elsewhere(ctx context.Context, store string, versions []uint64) (rebuilt, error) {
	self, err := os.Executable()
	if err != nil {
		return rebuilt{}, err
	}
	var ask, answer bytes.Buffer
	for _, seq := range versions {
		fmt.Fprintln(&ask, seq)
	}
	child := exec.CommandContext(ctx, self, "-rebuild", store)
	child.Stdin, child.Stdout, child.Stderr = &ask, &answer, os.Stderr
	if err := child.Run(); err != nil {
		return rebuilt{}, fmt.Errorf("the process that rebuilds: %w", err)
	}
	out := rebuilt{tables: map[uint64]print{}, took: map[uint64]time.Duration{}}
	if _, err := fmt.Fscanln(&answer, &out.ready, &out.naive, &out.checkpoints, &out.farthest); err != nil {
		return rebuilt{}, fmt.Errorf("read what was rebuilt: %w", err)
	}
	for range versions {
		var seq uint64
		var p print
		var took time.Duration
		if _, err := fmt.Fscanln(&answer, &seq, &p.hash, &p.text, &took); err != nil {
			return rebuilt{}, fmt.Errorf("read what was rebuilt: %w", err)
		}
		out.tables[seq], out.took[seq] = p, took
	}
	return out, nil
}

// rebuild is that process: it reads versions, one a line, and writes what it has
// rebuilt.
func rebuild(ctx context.Context, store string, ask io.Reader, answer io.Writer) (err error) {
	log, end, err := open(ctx, store, false)
	if err != nil {
		return err
	}
	defer end()
	h, err := history.New(history.Config{Log: log, Recent: 1, Patience: 5 * time.Minute})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- h.Run(running) }()
	defer func() { stop(); err = errors.Join(err, <-ended) }()

	began := time.Now()
	tip, err := log.Tip(ctx)
	if err != nil {
		return err
	}
	if err := h.Reached(ctx, tip); err != nil {
		return err
	}
	ready := time.Since(began)
	naive, err := naively(ctx, log, tip)
	if err != nil {
		return err
	}
	n, farthest := h.Checkpoints()
	fmt.Fprintln(answer, int64(ready), int64(naive), n, farthest)
	for lines := bufio.NewScanner(ask); lines.Scan(); {
		pos := event.Pos{Epoch: tip.Epoch}
		if _, err := fmt.Sscan(lines.Text(), &pos.Seq); err != nil {
			return err
		}
		began := time.Now()
		t, err := h.At(ctx, pos)
		if err != nil {
			return err
		}
		took, p := time.Since(began), printOf(t)
		fmt.Fprintln(answer, pos.Seq, p.hash, p.text, int64(took))
	}
	return nil
}

// naively folds the whole log from its beginning.
func naively(ctx context.Context, log eventbus.Reader, tip event.Pos) (time.Duration, error) {
	began := time.Now()
	cursor, err := log.Read(ctx, event.Pos{})
	if err != nil {
		return 0, err
	}
	defer cursor.Close()
	var f fold.Fold
	for f.Mark().Seq < tip.Seq {
		events, err := cursor.Next(ctx)
		if err != nil {
			return 0, err
		}
		if f, err = f.Take(events...); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}
