package replay

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

var update = flag.Bool("update", false, "write the answers in the stories anew")

func TestMain(m *testing.M) {
	flag.Parse()
	if *update {
		if err := flag.Set("rewrite", "true"); err != nil { // What datadriven calls it.
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// patience bounds what one step of a story waits for.
const patience = time.Minute

func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Parallel()
		s := newStory(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			out, err := s.step(ctx, d)
			if err != nil {
				out += "error: " + err.Error() + "\n"
			}
			return s.scrub(out)
		})
	})
}
