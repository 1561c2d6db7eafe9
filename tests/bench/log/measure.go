package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// keys is how many routing keys each publisher states in turn.
const keys = 100

// publish lets publishers append for a while, each one fact after the other, and
// returns how long each took to be on disk. An error ends the measurement.
func publish(ctx context.Context, log eventbus.Log, name string, publishers int, during time.Duration) ([]time.Duration, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	until := time.Now().Add(during)
	took := make([][]time.Duration, publishers)
	var all sync.WaitGroup
	for p := range publishers {
		all.Go(func() {
			last := make([]uint64, keys)
			for n := 0; time.Now().Before(until); n++ {
				began := time.Now()
				mark, err := log.Append(ctx, fact(fmt.Sprintf("%s-%d-%d", name, p, n%keys), n), last[n%keys])
				if err != nil {
					stop(err)
					return
				}
				last[n%keys] = mark.Seq
				took[p] = append(took[p], time.Since(began))
			}
		})
	}
	all.Wait()
	return slices.Concat(took...), context.Cause(ctx)
}

// fact states a routing key with one member, as a sandbox with one fork does.
func fact(key string, n int) event.Fact {
	return event.Fact{
		Key: event.RoutingKey(key), Time: time.Unix(1, 0),
		Cause: event.Cause{Kind: "RoutingConfig", Namespace: "signadot", Name: key, UID: key, Generation: int64(n), Manager: "bench"},
		Data: &factv1.RoutingDeclared{RoutingKey: key, Members: []*factv1.Member{
			{Kind: "ForkedWorkload", Namespace: "shop", Name: key, Sandbox: fmt.Sprint(n)},
		}},
	}
}

// fdatasync writes and syncs as many bytes as a fact takes, again and again.
func fdatasync(path string) ([]time.Duration, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	record := make([]byte, 1000)
	var took []time.Duration
	for range 500 {
		began := time.Now()
		if _, err := file.Write(record); err != nil {
			return nil, err
		}
		if err := syscall.Fdatasync(int(file.Fd())); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}
