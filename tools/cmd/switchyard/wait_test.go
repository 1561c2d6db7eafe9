package main

import (
	"context"
	"strings"
	"testing"

	"switchyard.dev/tools/switchyard/command/exit"
)

// The test's name is short: the socket of connect status has it in its path.
func TestScriptsWait(t *testing.T) {
	f := newFarSide(t, "local-wait")
	b := f.bench(t)
	waits := func(code exit.Code, says string, args ...string) {
		t.Helper()
		got, out, errs := b.does(t.Context(), append([]string{"connect", "status", "--wait"}, args...)...)
		if got != code || !strings.Contains(errs, says) {
			t.Errorf("--wait %s: exit code %d, without %q:\n%s%s", strings.Join(args, " "), got, says, out, errs)
		}
	}
	waits(exit.Usage, "it is connect, sandboxes or none", "sandbox")
	waits(exit.No, "after 10ms nothing runs that connects this workstation", "connect", "--wait-timeout", "10ms")
	f.sandbox("local-w", localServer(t), 80)
	f.mu.Lock()
	f.sandboxes[0].CallerIsAuthor = true
	workload := f.sandboxes[0].ExternalWorkloads[0]
	workload.Connected, workload.Message = false, "The tunnel at pod p has lost its workstation."
	f.mu.Unlock()
	// It is waited for while it begins, as scripts do.
	begun := make(chan exit.Code, 1)
	go func() {
		code, _, _ := b.does(context.Background(), "connect", "status", "--wait", "connect", "--wait-timeout", "1m")
		begun <- code
	}()
	end := b.begins("connect", "--socks5", "", "--http-proxy", "")
	if code := <-begun; code != exit.OK {
		t.Errorf("--wait connect, while it begins: exit code %d", code)
	}
	waits(exit.No, "requests for local-w/cart are not routed here: ", "sandboxes", "--wait-timeout", "2s")
	f.mu.Lock()
	workload.Connected, workload.Message = true, ""
	f.mu.Unlock()
	f.kill() // It asks again which sandboxes there are.
	waits(exit.OK, "", "sandboxes", "--wait-timeout", "1m")
	if _, text := end(); strings.Contains(text, ", but: ") {
		t.Errorf("before the operator has confirmed the connection it wrote\n%s", text)
	}
}
