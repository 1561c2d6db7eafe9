package devmesh

import (
	"fmt"
	"io"

	"switchyard.dev/tests/figures"
)

func (c counted) notes(w io.Writer) {
	for _, note := range c.Notes {
		fmt.Fprintln(w, "  ", note)
	}
}

// Print prints the figures.
func (f ChangesFigures) Print(w io.Writer, c Changes) {
	perSecond := func(n int) string { return fmt.Sprintf("%.1f", float64(n)/max(f.Took.Seconds(), 1)) }
	figures.Text(w, "changes", perSecond(f.Changes), "per-s", fmt.Sprintf("%d, for %s", c.PerSecond, c.For), f.Late == 0 && f.Took >= c.For && f.Changes > 0)
	figures.Text(w, "changes-load", perSecond(f.Requests.Sent), "requests-per-s", fmt.Sprint(c.Rate), f.Requests.Sent > 0 && float64(f.Requests.Sent) >= 0.98*float64(c.Rate)*f.Took.Seconds())
	figures.Text(w, "changes-load-over-http2", f.Requests.Multiplexed, "requests", fmt.Sprintf("any, of %d", f.Requests.Sent), f.Requests.Multiplexed > 0)
	figures.Text(w, "changes-requests-failed", f.Requests.Failed, "requests", fmt.Sprintf("0 of %d", f.Requests.Sent), f.Requests.Failed == 0)
	figures.Text(w, "changes-requests-to-a-wrong-destination", f.Requests.Wrong, "requests", fmt.Sprintf("0 of %d", f.Requests.Sent), f.Requests.Wrong == 0)
	figures.Text(w, "changes-without-a-receipt-in-time", f.Missing, "changes", fmt.Sprintf("0 of %d", f.Changes), f.Missing == 0)
	figures.Text(w, "changes-receipt-p50", fmt.Sprintf("%.4g", figures.Millis(f.Receipts, 0.5)), "ms", "any", true)
	figures.Text(w, "changes-receipt-p99", fmt.Sprintf("%.4g", figures.Millis(f.Receipts, 0.99)), "ms", "any", true)
	figures.Text(w, "changes-receipt-p50-at-the-end", fmt.Sprintf("%.4g", figures.Millis(f.Receipts[len(f.Receipts)*9/10:], 0.5)), "ms", "any; of the last tenth", true)
	f.Requests.notes(w)
}
