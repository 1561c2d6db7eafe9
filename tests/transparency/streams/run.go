package streams

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"switchyard.dev/tests/process"
	"switchyard.dev/tests/sidecar"
)

// Settings are what a run measures.
type Settings struct {
	// Bytes is the size of each body, and Runs how often each row is measured.
	Bytes int64
	Runs  int
	// RTT is the round trip of the line with a delay.
	RTT time.Duration
	// Rows names the rows to measure, by a part of their name; empty for all.
	Rows string
	// Stall is how many downloads are made on a loaded machine, in place of the rows;
	// 0 for none.
	Stall int
	// StallBytes is the size of each of those.
	StallBytes int64
	// Busy is how many loops keep the machine busy during the runs.
	Busy int
}

// Default are the settings of the rows that the sidecar is held to.
func Default() Settings {
	return Settings{Bytes: 256 << 20, Runs: 5, RTT: time.Millisecond, StallBytes: 1 << 30, Busy: 12}
}

// Run measures and prints. It starts the calling program again, with the same arguments, in a
// separate network namespace and as parts of the measurement: call it before anything else that has
// effects. It needs root.
func Run(ctx context.Context, s Settings, w io.Writer) (err error) {
	if role := process.Role(); role != "" {
		return become(role)
	}
	if s.Runs < 1 || s.Bytes < 1 || s.Stall < 0 || s.StallBytes < 1 {
		return errors.New("there is nothing to measure: sizes and runs must be positive")
	}
	if err := sidecar.Isolate(sidecar.Program); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "st")
	if err != nil {
		return err
	}
	r := &rig{dir: dir}
	defer func() {
		r.close()
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if err := r.build(ctx, s); err != nil {
		return err
	}
	if s.Stall > 0 {
		return r.stall(ctx, s, w)
	}
	return r.rows(ctx, s, w)
}
