package comparison_test

import (
	"strings"
	"testing"

	"switchyard.dev/workflows/comparison"
	"switchyard.dev/workflows/comparison/exchange"
	"switchyard.dev/workflows/comparison/noise"
)

func run(status int, body string, header ...string) exchange.Run {
	e := exchange.Exchange{Test: "t", Name: "ride", Method: "GET", Path: "/dispatch"}
	e.Response = exchange.Message{Status: status, Body: []byte(body)}
	for i := 0; i < len(header); i += 2 {
		e.Response.Header = append(e.Response.Header, exchange.Field{Name: header[i], Value: header[i+1]})
	}
	return exchange.Run{e}
}

func TestARedCallIsExplained(t *testing.T) {
	baseline := []exchange.Run{run(200, `{"eta":2,"driver":"T1C"}`, "Server", "a", "Content-Length", "24"), run(200, `{"eta":3,"driver":"T2C"}`, "Server", "a"), run(200, `{"eta":2,"driver":"T3C"}`, "Server", "a")}
	fork := []exchange.Run{run(500, `{"eta":2,"driver":"T4C"}`, "Server", "a"), run(500, `{"eta":2,"driver":"T5C"}`, "Server", "a"), run(500, `{"eta":3,"driver":"T1C"}`, "Server", "a", "Content-Length", "999")}
	r := comparison.Compare(baseline, fork, comparison.Options{})
	if len(r.Calls) != 1 || len(r.Calls[0].Response) != 1 || r.Calls[0].Colour() != noise.Red {
		t.Fatalf("%+v", r)
	}
	want := "status: another value. The baseline had status 200 in all 3 runs; the fork had status 500 in all 3 runs. " +
		"A place that varies by chance in each run looks like this in at most 3.1 % of comparisons."
	if got := r.Calls[0].Response[0].Explain(); got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

func TestNamesOfTheSidesAreNoDifference(t *testing.T) {
	baseline := []exchange.Run{run(200, `{"host":"pod-a","pods":{"pod-a":1}}`, "X-Pod", "pod-a"), run(200, `{"host":"pod-a","pods":{"pod-a":1}}`, "X-Pod", "pod-a")}
	fork := []exchange.Run{run(200, `{"host":"pod-b","pods":{"pod-b":1}}`, "X-Pod", "pod-b"), run(200, `{"host":"pod-b","pods":{"pod-b":1}}`, "X-Pod", "pod-b")}
	if r := comparison.Compare(baseline, fork, comparison.Options{}); r.Calls[0].Colour() != noise.Red {
		t.Errorf("without names %v", r.Calls[0].Response)
	}
	if r := comparison.Compare(baseline, fork, comparison.Options{BaselineNames: []string{"pod-a"}, ForkNames: []string{"pod-b"}}); r.Calls[0].Colour() != noise.Green {
		t.Errorf("with names %v", r.Calls[0].Response)
	}
}

func TestABodyThatCannotBeDecodedIsComparedAsBytes(t *testing.T) {
	one := run(200, "not gzip", "Content-Encoding", "gzip")
	other := run(200, "not gzip either", "Content-Encoding", "gzip")
	r := comparison.Compare([]exchange.Run{one, one}, []exchange.Run{other, other}, comparison.Options{})
	if c := r.Calls[0]; len(c.Response) != 1 || c.Response[0].Path != "body" || len(c.Problems) != 4 || !strings.Contains(c.Problems[0], "gzip") {
		t.Errorf("%+v", c)
	}
	if r := comparison.Compare([]exchange.Run{one, one}, []exchange.Run{one, one}, comparison.Options{}); r.Calls[0].Colour() != noise.Green {
		t.Errorf("the same bytes: %+v", r.Calls[0])
	}
}
