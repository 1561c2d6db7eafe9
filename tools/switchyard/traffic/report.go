package traffic

import (
	"fmt"
	"strings"

	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/comparison/noise"
	"switchyard.dev/workflows/replay"
)

// longestValue is how many characters of values are shown.
const longestValue = 80

// reportText returns a comparison as text: each endpoint with its findings, and what was not compared.
func reportText(p *show.Printer, r *replay.Report) string {
	var b strings.Builder
	count := map[noise.Colour]int{}
	for _, e := range r.Endpoints {
		count[e.Verdict]++
		fmt.Fprintf(&b, "%s  %s  %s (%s)\n", painted(p, e.Verdict), show.Line(e.Method+" "+e.Path), show.Line(e.Workload), show.Many(e.Requests, "request"))
		for _, f := range e.Findings {
			fmt.Fprintf(&b, "  %s  %s\n          expected  %s\n          value     %s\n          why       %s\n", painted(p, f.Verdict), show.Line(f.Path), brief(f.Expected), brief(f.Value), show.Line(f.Why))
			fmt.Fprintf(&b, "          seen in   %s, such as %s\n", show.Many(f.Requests, "request"), show.Line(f.Example))
		}
		for _, problem := range e.Problems {
			fmt.Fprintf(&b, "  compared as bytes only: %s\n", show.Line(problem))
		}
	}
	list(&b, "unpaired: without answers of both sides", r.Unpaired)
	list(&b, "not replayed", r.NotReplayed)
	fmt.Fprintf(&b, "endpoints: %d red, %d yellow, %d green; requests: %d unpaired, %d not replayed\n", count[noise.Red], count[noise.Yellow], count[noise.Green], len(r.Unpaired), len(r.NotReplayed))
	return b.String()
}

// painted returns a verdict in its colour, and with the width of the longest.
func painted(p *show.Printer, v noise.Colour) string {
	return p.Paint(map[noise.Colour]string{noise.Red: show.Red, noise.Yellow: show.Yellow, noise.Green: show.Green}[v], fmt.Sprintf("%-6s", v))
}

func brief(text string) string {
	if runes := []rune(text); len(runes) > longestValue {
		text = string(runes[:longestValue]) + "…"
	}
	return show.Line(text)
}

// list writes requests that were not compared, one line each.
func list(b *strings.Builder, title string, all []replay.Listed) {
	if len(all) > 0 {
		fmt.Fprintf(b, "%s:\n", title)
	}
	for _, l := range all {
		fmt.Fprintf(b, "  %s  %s\n", show.Line(l.Method+" "+l.Target), show.Line(l.Reason+" ("+l.ID+")"))
	}
}
