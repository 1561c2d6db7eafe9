package meshes

import (
	"fmt"
	"os"
	"testing"
	"time"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/meshes"
)

const (
	// sandboxes is how many there are beside the one that comes.
	sandboxes = 500
	// changes is how many come, one after the other.
	changes = 40
)

// measured is what the test has measured; TestMain prints it, after all that tests print.
var measured struct {
	// written is from the fact to the answer of the write, and led from there to the first
	// request that the proxy leads.
	written, led []time.Duration
	// applied is how long kubectl took, and ledByHand is from its end to that request.
	applied, ledByHand []time.Duration
	// bytes is the size of the object with all sandboxes, and ofOne what one of them has of it.
	bytes, ofOne int
}

func TestMain(m *testing.M) {
	if err := meshes.Isolate(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	report()
	os.Exit(code)
}

// report prints the figures.
func report() {
	if len(measured.ledByHand) == 0 {
		return // The test failed, and said why.
	}
	out := os.Stdout
	figures.AtMost(out, "meshes-fact-to-write-p50", figures.Millis(measured.written, 0.5), "ms", 150)
	figures.Print(out, "meshes-fact-to-write-p99", figures.Millis(measured.written, 0.99), "ms")
	beside := figures.Beside("by hand")
	beside.AtMost(out, "meshes-write-to-proxy-p50", figures.Millis(measured.led, 0.5), "ms", 0, figures.Millis(measured.ledByHand, 0.5))
	beside.AtMost(out, "meshes-write-to-proxy-p99", figures.Millis(measured.led, 0.99), "ms", 0, figures.Millis(measured.ledByHand, 0.99))
	figures.Print(out, "meshes-kubectl-apply-p50", figures.Millis(measured.applied, 0.5), "ms")
	figures.Print(out, "meshes-object", float64(measured.bytes)/(1<<10), "KiB")
	figures.Print(out, "meshes-object-for-one-sandbox", float64(measured.ofOne)/(1<<10), "KiB")
}
