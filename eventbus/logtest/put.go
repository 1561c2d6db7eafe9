package logtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// Put appends facts, each after the newest of its key. One without a time has the first second of 1970.
func Put(ctx context.Context, log eventbus.Log, facts ...event.Fact) error {
	for _, f := range facts {
		if f.Time.IsZero() {
			f.Time = time.Unix(1, 0)
		}
		newest, _, err := log.Newest(ctx, f.Key)
		if err == nil {
			_, err = log.Append(ctx, f, newest.Pos.Seq)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkFollow reads a log of 10,000 keys, which it writes, from the start.
func BenchmarkFollow(b *testing.B, log eventbus.Log) {
	const keys = 10000
	for n := range keys {
		if _, err := log.Append(b.Context(), Fact(fmt.Sprint("k", n), n), 0); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		f, err := log.Follow(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for got := 0; got < keys; {
			facts, err := f.Next(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			got += len(facts)
		}
		f.Close()
	}
	b.ReportMetric(float64(keys)*float64(b.N)/b.Elapsed().Seconds(), "facts/s")
}
