package jetstream_test

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
)

// BenchmarkAppend appends one fact at a time, each on disk before the next, and
// reports the same disk's bare fdatasync of as many bytes beside it: no log can
// be faster than that.
func BenchmarkAppend(b *testing.B) {
	dir := b.TempDir()
	log := open(b, jetstream.Config{Conn: inside(b, embedded.Config{StoreDir: filepath.Join(dir, "store")}), MaxBytes: 512 << 20})
	bare := fdatasync(b, dir)
	var took []time.Duration
	var last uint64
	for n := 0; b.Loop(); n++ {
		began := time.Now()
		pos, err := log.Append(b.Context(), logtest.Fact("bench", n), last)
		if err != nil {
			b.Fatal(err)
		}
		last = pos.Seq
		took = append(took, time.Since(began))
	}
	report(b, "append", took)
	report(b, "fdatasync", bare)
}

func report(b *testing.B, what string, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), what+"-p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), what+"-p99-µs")
}

// fdatasync writes and syncs as many bytes as a fact takes, again and again.
func fdatasync(b *testing.B, dir string) []time.Duration {
	b.Helper()
	file, err := os.Create(filepath.Join(dir, "bare"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	record := make([]byte, 700)
	var took []time.Duration
	for range 500 {
		began := time.Now()
		if _, err := file.Write(record); err != nil {
			b.Fatal(err)
		}
		if err := syscall.Fdatasync(int(file.Fd())); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	return took
}

// BenchmarkFollow reads a log of 10,000 keys from the start.
func BenchmarkFollow(b *testing.B) {
	conn := inside(b, embedded.Config{Unsynced: true}) // writing is not measured here
	logtest.BenchmarkFollow(b, open(b, jetstream.Config{Conn: conn}))
}
