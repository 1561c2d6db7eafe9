package streams

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"switchyard.dev/tests/figures"
)

// notBelow is the share of the bare median below which no download may fall.
const notBelow = 0.5

// stall makes one download after the other on a machine that is busy, bare and
// through the sidecar in turn: none may stall.
func (r *rig) stall(ctx context.Context, s Settings, w io.Writer) error {
	before := len(r.parts)
	defer r.end(before)
	for range s.Busy {
		if err := r.start(roleBusy, []string{"GOMAXPROCS=1"}); err != nil {
			return err
		}
	}
	t := transfer{two: true, atOnce: 1, bytes: s.StallBytes}
	var rates [2][]float64
	for run := range s.Stall {
		for i, p := range []*place{r.places[bare], r.places[ours]} {
			rate, err := p.rate(ctx, t)
			if err != nil {
				return fmt.Errorf("download %d: %w", run, err)
			}
			rates[i] = append(rates[i], rate)
		}
		fmt.Fprintf(w, "%s download %d: bare %.0f, ours %.0f MB/s (load %s)\n",
			time.Now().Format(time.TimeOnly), run+1, rates[0][run], rates[1][run], load())
	}
	bare, least := figures.Median(rates[0]), slices.Min(rates[1])
	fmt.Fprintf(w, "streams-stall-bare %.0f MB/s\nstreams-stall-ours %.0f MB/s\n", bare, figures.Median(rates[1]))
	figures.Text(w, "streams-stall-least-of-bare-median", fmt.Sprintf("%.2f", least/bare), "times",
		fmt.Sprintf("at least %g", notBelow), least >= notBelow*bare)
	return nil
}

// load is the machine's, over the last minute.
func load() string {
	b, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(b), " ")
	return first
}
