package linearizable

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/routeserver/table"
)

// call is what somebody wants of a register: to write a value, or to read.
type call struct {
	register string
	write    bool
	value    string
}

// registers is the model: each register has the value written last, at first
// none. It is what Porcupine holds a history against.
var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		of := map[string][]porcupine.Operation{}
		for _, op := range history {
			r := op.Input.(call).register
			of[r] = append(of[r], op)
		}
		var out [][]porcupine.Operation
		for _, ops := range of {
			out = append(out, ops)
		}
		return out
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		if c := input.(call); c.write {
			return true, c.value
		}
		return output == state, state
	},
	DescribeOperation: func(input, output any) string {
		c := input.(call)
		if c.write {
			return fmt.Sprintf("%s := %q", c.register, c.value)
		}
		return fmt.Sprintf("%s is %q", c.register, output)
	},
}

// never is when an operation ends whose end nobody heard: it may take effect at
// any time, or not at all, which is the same as after everything.
const never = math.MaxInt64

// history is what everybody did and saw.
type history struct {
	began time.Time

	mu     sync.Mutex
	ops    []porcupine.Operation
	tables map[event.Pos]table.Hash
	forked []string
	looked int
}

func newHistory() *history {
	return &history{began: time.Now(), tables: map[event.Pos]table.Hash{}}
}

// now is the time in the history, by the monotonic clock.
func (h *history) now() int64 { return int64(time.Since(h.began)) }

func (h *history) add(client int, c call, called int64, output string, returned int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: c, Call: called, Output: output, Return: returned})
}

// saw holds a table against everybody else's of the same version.
func (h *history) saw(who string, t table.Table) {
	if !t.Whole() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looked++
	switch known, ok := h.tables[t.Pos()]; {
	case !ok:
		h.tables[t.Pos()] = t.Hash()
	case known != t.Hash():
		h.forked = append(h.forked, fmt.Sprintf("%s has at %v the table %v, others have %v", who, t.Pos(), t.Hash(), known))
	}
}

// verdict is what came out.
type verdict struct {
	linearizable                             bool
	reads, writes, pending, versions, looked int
	forked                                   []string
	info                                     porcupine.LinearizationInfo
}

// judge lets Porcupine decide. A history that it cannot decide on in time counts
// as none.
func (h *history) judge() verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := verdict{versions: len(h.tables), looked: h.looked, forked: h.forked}
	for _, op := range h.ops {
		switch c := op.Input.(call); {
		case !c.write:
			v.reads++
		case op.Return == never:
			v.pending++
		default:
			v.writes++
		}
	}
	var result porcupine.CheckResult
	result, v.info = porcupine.CheckOperationsVerbose(registers, h.ops, 5*time.Minute)
	v.linearizable = result == porcupine.Ok
	return v
}

// mustHold fails the test when anything is not as it must be, or when too little
// happened to tell.
func (v verdict) mustHold(t *testing.T) {
	t.Helper()
	t.Logf("%d reads, %d writes and %d without a known end; %d versions, looked at %d times", v.reads, v.writes, v.pending, v.versions, v.looked)
	if !v.linearizable {
		path := t.ArtifactDir() + "/history.html"
		t.Errorf("not linearizable; see %s (%v)", path, porcupine.VisualizePath(registers, v.info, path))
	}
	for i, f := range v.forked {
		if i == 10 {
			t.Errorf("and %d more", len(v.forked)-i)
			break
		}
		t.Error(f)
	}
	if v.reads < 50 || v.writes < 50 || v.looked < v.versions+50 {
		t.Error("too little happened to tell anything")
	}
}
