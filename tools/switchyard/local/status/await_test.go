package status

import (
	"strings"
	"testing"

	"switchyard.dev/tunnels/workstation"
)

func TestAwaitNamesTheMissingParts(t *testing.T) {
	const nothing = ""
	here := workstation.WorkloadStatus{Sandbox: "mine", Name: "cart", Open: true, Allowed: true}
	for name, c := range map[string]struct {
		all              []workstation.Status
		connect, sandbox string
	}{
		"nothing runs":     {nil, "nothing runs", "nothing runs"},
		"it connects":      {[]workstation.Status{{}}, "no connection: it is being made", "no connection: it is being made"},
		"it cannot":        {[]workstation.Status{{Trouble: "no road"}}, "no connection: no road", "no connection: no road"},
		"one of two":       {[]workstation.Status{{Connected: true}, {}}, "no connection", "no connection"},
		"not reported yet": {[]workstation.Status{{Connected: true, Asks: true}}, nothing, "tunnel-api has not answered yet"},
		"not reported":     {[]workstation.Status{{Connected: true, Unsure: "it is away"}}, nothing, "which sandboxes are yours: it is away"},
		"not open":         {[]workstation.Status{{Connected: true, Workloads: []workstation.WorkloadStatus{here, {Sandbox: "mine", Name: "db", Allowed: true}}}}, nothing, "requests for mine/db are not routed here: the cluster"},
		"not routed yet":   {[]workstation.Status{{Connected: true, Workloads: []workstation.WorkloadStatus{{Sandbox: "a", Name: "b", Open: true, Allowed: true, Message: "It is new."}}}}, nothing, "a/b are not routed here: It is new."},
		"all of it":        {[]workstation.Status{{Connected: true, Workloads: []workstation.WorkloadStatus{here}}}, nothing, nothing},
		"held by another":  {[]workstation.Status{{Connected: true, Workloads: []workstation.WorkloadStatus{here, {Sandbox: "his", Name: "db", Allowed: true, Holder: "bob"}}}}, nothing, nothing},
		"not allowed":      {[]workstation.Status{{Connected: true, Workloads: []workstation.WorkloadStatus{here, {Sandbox: "his", Name: "db", Message: "No."}}}}, nothing, nothing},
		"no sandboxes":     {[]workstation.Status{{Connected: true}}, nothing, nothing},
	} {
		for sandboxes, says := range map[bool]string{false: c.connect, true: c.sandbox} {
			if got := lacking(c.all, sandboxes, nil); (got == "") != (says == "") || !strings.Contains(got, says) {
				t.Errorf("%s, with sandboxes %v: %q, not %q", name, sandboxes, got, says)
			}
		}
	}
}

// A sandbox that was applied a moment ago is not among those that are known.
func TestOneThatIsNamedIsWaitedFor(t *testing.T) {
	all := []workstation.Status{{Connected: true}, {Connected: true, Workloads: []workstation.WorkloadStatus{{Sandbox: "mine", Name: "cart", Open: true, Allowed: true}}}}
	if got := lacking(all, true, []string{"mine"}); got != "" {
		t.Errorf("one that comes here: %q", got)
	}
	if got := lacking(all, true, []string{"mine", "new"}); !strings.Contains(got, "sandbox new of yours") {
		t.Errorf("one that is not known yet: %q", got)
	}
	refusing := append(all, workstation.Status{Connected: true, Workloads: []workstation.WorkloadStatus{{Sandbox: "mine", Name: "cart", Message: "No."}}})
	if got, beside := lacking(refusing, true, []string{"mine"}), uncounted(refusing); got != "" || len(beside) > 0 {
		t.Errorf("one that another program of the user serves: %q, %q", got, beside)
	}
	all[1].Workloads[0].Holder, all[1].Workloads[0].Message = "bob", "It is held by bob."
	if got := lacking(all, true, []string{"mine"}); !strings.Contains(got, "held by bob") {
		t.Errorf("one that another user holds: %q", got)
	}
	if got := uncounted(all); len(got) != 1 || !strings.Contains(got[0], "mine/cart: It is held by bob.") {
		t.Errorf("not waited for are %q", got)
	}
	if got := lacking(all, false, []string{"new"}); got != "" {
		t.Errorf("where the connection alone is waited for: %q", got)
	}
}

func TestEachRefusedPortHasItsReason(t *testing.T) {
	one := workstation.WorkloadStatus{Sandbox: "his", Name: "db", Message: "no a; no b", Ports: []workstation.PortStatus{
		{Baseline: 1, Local: "127.0.0.1:1", Refused: "no a"}, {Baseline: 2, Local: "127.0.0.1:2", Refused: "no b"}}}
	for _, connected := range []bool{false, true} {
		got := strings.Join(lines(workstation.Status{Connected: connected, Workloads: []workstation.WorkloadStatus{one}}), "\n")
		if !strings.Contains(got, "port 1 of its own is not opened: no a\n") || !strings.Contains(got, "port 2 of its own is not opened: no b") || strings.Contains(got, "; ") {
			t.Errorf("connected %t:\n%s", connected, got)
		}
	}
	one.Ports, one.Message = nil, "It names none."
	if got := strings.Join(lines(workstation.Status{Connected: true, Workloads: []workstation.WorkloadStatus{one}}), "\n"); !strings.Contains(got, "his/db receives no requests here: It names none.") {
		t.Errorf("without ports:\n%s", got)
	}
}
