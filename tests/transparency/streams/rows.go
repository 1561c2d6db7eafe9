package streams

import (
	"context"
	"fmt"
	"io"
	"strings"

	"switchyard.dev/tests/figures"
)

// atLeast is the share of a stock Envoy's rate that the sidecar is held to.
const atLeast = 0.9

// rows measures all transfers, and prints each when it is done.
func (r *rig) rows(ctx context.Context, s Settings, w io.Writer) error {
	for _, t := range transfers(s.Bytes) {
		name := t.name(s.RTT)
		if !strings.Contains(name, s.Rows) {
			continue
		}
		rates := make([][]float64, len(r.places))
		for run := range s.Runs {
			for i := range r.places {
				i = (i + run) % len(r.places)
				rate, err := r.places[i].rate(ctx, t)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				rates[i] = append(rates[i], rate)
			}
		}
		for i, p := range r.places {
			fmt.Fprintf(w, "%s-%s %.0f MB/s\n", name, p.name, figures.Median(rates[i]))
		}
		ratio := figures.Median(rates[ours]) / figures.Median(rates[stockEnvoy])
		figures.Text(w, name+"-of-stock", fmt.Sprintf("%.2f", ratio), "times", fmt.Sprintf("at least %g", atLeast), ratio >= atLeast)
	}
	return nil
}
