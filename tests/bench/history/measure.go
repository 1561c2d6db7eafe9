package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"switchyard.dev/tests/figures"
)

func measure(ctx context.Context, seed uint64, w io.Writer) error {
	dir, err := os.MkdirTemp("", "history-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	fmt.Fprintf(w, "history-seed %d\n", seed)
	if err := timeTravel(ctx, filepath.Join(dir, "travel"), seed, w); err != nil {
		return err
	}
	return rebuilds(ctx, filepath.Join(dir, "rebuilds"), seed, w)
}

// timeTravel compares versions as they were with those rebuilt elsewhere.
func timeTravel(ctx context.Context, store string, seed uint64, w io.Writer) error {
	was, err := record(ctx, store, 10_000, seed)
	if err != nil {
		return err
	}
	asked := was.versions(100)
	is, err := elsewhere(ctx, store, asked)
	if err != nil {
		return err
	}
	equal := 0
	for _, seq := range asked {
		if is.tables[seq] == was.tables[seq] {
			equal++
		} else {
			fmt.Fprintf(os.Stderr, "version %d was %v and is %v\n", seq, was.tables[seq], is.tables[seq])
		}
	}
	fmt.Fprintf(w, "time-travel-equal %d of %d (target %d): %s\n", equal, len(asked), len(asked), figures.Verdict(equal == len(asked)))
	return nil
}

// rebuilds measures how long versions take out of many events.
func rebuilds(ctx context.Context, store string, seed uint64, w io.Writer) error {
	was, err := record(ctx, store, 100_000, seed+1)
	if err != nil {
		return err
	}
	asked := was.versions(100)
	is, err := elsewhere(ctx, store, asked)
	if err != nil {
		return err
	}
	var took []time.Duration
	for _, seq := range asked {
		if is.tables[seq] != was.tables[seq] {
			return fmt.Errorf("version %d of %d events was %v and is %v", seq, was.tip, was.tables[seq], is.tables[seq])
		}
		took = append(took, is.took[seq])
	}
	slices.Sort(took)
	report(w, "rebuild-median-of-100-at-100000-events", took[len(took)/2], time.Second, is.naive)
	report(w, "rebuild-worst-of-100-at-100000-events", took[len(took)-1], time.Second, is.naive)
	fmt.Fprintf(w, "history-ready-from-100000-events %.3g s, %d checkpoints, at most %d events apart\n", is.ready.Seconds(), is.checkpoints, is.farthest)
	return nil
}

// report prints one duration. naive is the same for the naive form.
func report(w io.Writer, name string, value, target, naive time.Duration) {
	fmt.Fprintf(w, "%s %.3g s (target %.3g, naive %.3g): %s\n", name, value.Seconds(), target.Seconds(), naive.Seconds(), figures.Verdict(value <= target))
}
