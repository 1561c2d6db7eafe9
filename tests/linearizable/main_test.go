package linearizable

import (
	"flag"
	"os"
	"testing"
	"time"

	"switchyard.dev/tests/process"
)

var runFor = flag.Duration("run-for", 10*time.Second, "how long to read and write under faults")

func TestMain(m *testing.M) {
	if process.Role() == roleBus {
		if process.Answer(Bus{}) != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// Under every fault that there is, a fresh read is linearizable with the writes,
// and a version is the same table everywhere.
func TestFreshReadsAreLinearizableUnderFaults(t *testing.T) {
	w := newWorld(t, options{})
	w.run(*runFor, w.breakThings)
	w.verdict().mustHold(t)
}

// A read that answers from whatever table is there must be found out.
func TestReadsThatDoNotWaitAreFoundOut(t *testing.T) {
	w := newWorld(t, options{stale: true})
	w.run(3*time.Second, w.cutServers)
	if v := w.verdict(); v.linearizable {
		t.Error("the history is linearizable, although reads do not wait for the log")
	}
}

// A view that misses a fact must be found out, twice: by what is read, and by
// the hash of its versions.
func TestAViewThatMissesAFactIsFoundOut(t *testing.T) {
	w := newWorld(t, options{deaf: true})
	w.run(3*time.Second, nil)
	v := w.verdict()
	if v.linearizable {
		t.Error("the history is linearizable, although one server misses facts")
	}
	if len(v.forked) == 0 {
		t.Error("every version is the same everywhere, although one server misses facts")
	}
}
