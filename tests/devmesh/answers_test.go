package devmesh

import "testing"

func TestAnAnswerIsRightFromItsChangeUntilTheReceiptOfTheNext(t *testing.T) {
	b, d := newBook(), decision{workloads[0], "k"}
	early := b.ask(d)
	b.begin(d, "fork 1")
	between := b.ask(d)
	b.receipt(d)
	after := b.ask(d)
	b.begin(d, "baseline cart")
	b.receipt(d)
	last := b.ask(d)
	for name, c := range map[string]struct {
		judge  func(string) error
		answer string
		right  bool
	}{
		"sent before the change, answered by what was":       {early, "baseline cart", true},
		"sent before the change, answered by what came":      {early, "fork 1", true},
		"sent before the receipt, answered by what was":      {between, "baseline cart", true},
		"sent after the receipt, answered by what came":      {after, "fork 1", true},
		"sent after the receipt, answered by what came next": {after, "baseline cart", true},
		"sent after the last receipt, answered by what was":  {last, "fork 1", false},
		"answered by somebody else":                          {early, "fork 2", false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.judge(c.answer); (err == nil) != c.right {
				t.Errorf("judged: %v", err)
			}
		})
	}
}

func TestAnOldAnswerAfterTheReceiptIsWrong(t *testing.T) {
	b, d := newBook(), decision{workloads[0], "k"}
	b.begin(d, "fork 1")
	b.receipt(d)
	if err := b.ask(d)("baseline cart"); err == nil {
		t.Error("the baseline answered a key whose fork had its receipt, and that was let pass")
	}
}
