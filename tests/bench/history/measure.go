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
	is, err := elsewhere(store, asked)
	if err != nil {
		return err
	}
	equal := 0
	for _, seq := range asked {
		if is.Tables[seq] == was.tables[seq] {
			equal++
		} else {
			fmt.Fprintf(os.Stderr, "version %d was %v and is %v\n", seq, was.tables[seq], is.Tables[seq])
		}
	}
	figures.Text(w, "time-travel-equal", equal, fmt.Sprintf("of %d", len(asked)), fmt.Sprint(len(asked)), equal == len(asked))
	return nil
}

// rebuilds measures how long versions take out of many events.
func rebuilds(ctx context.Context, store string, seed uint64, w io.Writer) error {
	was, err := record(ctx, store, 100_000, seed+1)
	if err != nil {
		return err
	}
	asked := was.versions(100)
	is, err := elsewhere(store, asked)
	if err != nil {
		return err
	}
	var took []time.Duration
	for _, seq := range asked {
		if is.Tables[seq] != was.tables[seq] {
			return fmt.Errorf("version %d of %d events was %v and is %v", seq, was.tip, was.tables[seq], is.Tables[seq])
		}
		took = append(took, is.Took[seq])
	}
	beside := figures.Beside("naive").AtMost
	beside(w, "rebuild-median-of-100-at-100000-events", figures.Median(took).Seconds(), "s", 1, is.Naive.Seconds())
	beside(w, "rebuild-worst-of-100-at-100000-events", slices.Max(took).Seconds(), "s", 1, is.Naive.Seconds())
	fmt.Fprintf(w, "history-ready-from-100000-events %.3g s, %d checkpoints, at most %d events apart\n", is.Ready.Seconds(), is.Checkpoints, is.Farthest)
	return nil
}
