package tunnels

import (
	"os"
	"testing"
	"time"
)

// A request that the baseline answers counts while a tunnel is declared, and one that another
// workstation answers always.
func TestResponsesAreCountedByResponder(t *testing.T) {
	l := ledger{since: map[string]time.Time{}}
	l.keyed("dora-0", "dora-0", nil, true)
	l.keyed("dora-0", baselineSays, nil, false)
	l.keyed("dora-0", "", os.ErrClosed, true)
	if l.Keyed != 3 || l.Answered != 1 || l.Baseline+l.Astray != 0 {
		t.Errorf("it is %+v", &l)
	}
	l.keyed("dora-0", baselineSays, nil, true)
	l.keyed("dora-0", "emil-0", nil, false)
	l.plain(baselineSays, nil)
	if l.Baseline != 1 || l.Astray != 1 || l.PlainWrong != 0 {
		t.Errorf("it is %+v", &l)
	}
	l.plain("dora-0", nil)
	l.plain("", os.ErrClosed)
	if l.Plain != 3 || l.PlainWrong != 2 {
		t.Errorf("it is %+v", &l)
	}
}
