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

// figuresOfOne is what a test has measured.
type figuresOfOne struct {
	// written is from the fact to the answer of the write, and led from there to the first
	// request that the proxy routes.
	written, led []time.Duration
	// applied is how long kubectl took, and ledByHand is from its end to that request.
	applied, ledByHand []time.Duration
	// annotated is how long the API server takes to write an annotation of an object of the same
	// size, with no webhook.
	annotated []time.Duration
	// bytes is the size of the object with all sandboxes, and ofOne the part of one of them.
	bytes, ofOne int
	// told and full are with how many sandboxes an object is reported to have little room, and
	// has none: 0 where each has objects of its own.
	told, full int
}

// What the tests have measured; TestMain prints it, after all that tests print.
var inVirtualService, derived figuresOfOne

func TestMain(m *testing.M) {
	if err := meshes.Isolate(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	inVirtualService.report("meshes")
	derived.report("meshes-derived")
	os.Exit(code)
}

// report prints the figures.
func (f *figuresOfOne) report(prefix string) {
	if len(f.ledByHand) == 0 {
		return // The test failed with an error, or was not run.
	}
	out := os.Stdout
	figures.AtMost(out, prefix+"-fact-to-write-p50", figures.Millis(f.written, 0.5), "ms", 150)
	figures.Print(out, prefix+"-fact-to-write-p99", figures.Millis(f.written, 0.99), "ms")
	beside := figures.Beside("by hand")
	beside.AtMost(out, prefix+"-write-to-proxy-p50", figures.Millis(f.led, 0.5), "ms", 0, figures.Millis(f.ledByHand, 0.5))
	beside.AtMost(out, prefix+"-write-to-proxy-p99", figures.Millis(f.led, 0.99), "ms", 0, figures.Millis(f.ledByHand, 0.99))
	figures.Print(out, prefix+"-kubectl-apply-p50", figures.Millis(f.applied, 0.5), "ms")
	if f.full > 0 {
		figures.Print(out, prefix+"-one-annotation-p50", figures.Millis(f.annotated, 0.5), "ms")
		figures.Print(out, prefix+"-object", float64(f.bytes)/(1<<10), "KiB")
		figures.Print(out, prefix+"-sandboxes-until-told", float64(f.told), "sandboxes")
		figures.Print(out, prefix+"-sandboxes-until-full", float64(f.full), "sandboxes")
	}
	figures.Print(out, prefix+"-object-for-one-sandbox", float64(f.ofOne)/(1<<10), "KiB")
}
