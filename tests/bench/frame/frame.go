// Package frame is what the benchmarks have in common: how they begin and end, a log on
// disk, the facts of a shop, changes at an even pace, and clients by the hundred. They
// measure themselves with package process and print with package figures.
package frame

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Main runs a program until it has ended or receives a signal, and exits with 1 when it failed.
// At a second signal, a while later, it ends at once.
func Main(name string, run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	if err := run(ctx); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Evenly does something n times, so many times a second and never two at once, and
// returns how long all of it took.
func Evenly(n, perSecond int, do func(i int) error) (time.Duration, error) {
	began := time.Now()
	for i := range n {
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(perSecond))))
		if err := do(i); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}
