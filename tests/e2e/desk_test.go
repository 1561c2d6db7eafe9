package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/tools/demo/local"
	"switchyard.dev/tools/traffic"
)

// desk is a developer's machine and account, and the customer service as the cluster has it.
type desk struct {
	*world
	at       *local.Workstation
	user     string
	client   *http.Client
	customer string
}

// desk returns a machine with a user of its own. number is one that no other machine of the test has.
func (w *world) desk(user string, number int) *desk {
	w.t.Helper()
	at, err := local.NewWorkstationOf(w.t.Context(), user, number)
	w.t.Cleanup(func() {
		if err := at.Remove(); err != nil {
			w.t.Error(err)
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return &desk{w, at, "system:serviceaccount:hotrod:" + user, traffic.NewClient(), w.url("hotrod", "customer", 8081)}
}

// applies applies the sandbox local.Sandbox, in which customer is a process at localhost:8081 of a
// workstation, as the machine's user. It returns the sandbox's file.
func (d *desk) applies() string {
	d.t.Helper()
	file, _, err := d.at.Sandbox()
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Log(d.runs(local.Program("switchyard"), "sandbox", "apply", "-f", file, "--wait=false"))
	d.removeAfter("signadotsandbox", local.Sandbox)
	return file
}

// runs runs a command on the machine and returns its output.
func (d *desk) runs(argv ...string) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	out, err := d.at.Command(ctx, argv...).CombinedOutput()
	return fmt.Sprintf("%s (%v)", strings.TrimSpace(string(out)), err)
}

// starts runs a program on the machine until stop or the test's end. stop returns all that programs
// of the machine have written.
func (d *desk) starts(argv ...string) (stop func() string) {
	d.t.Helper()
	// The program ends as by Ctrl-C, and not by the context.
	p, err := d.at.Start(context.WithoutCancel(d.t.Context()), "output", argv...)
	if err != nil {
		d.t.Fatal(err)
	}
	stop = sync.OnceValue(func() string {
		output, err := p.Stop()
		if d.t.Logf("output of the workstation of %s:\n%s", d.user, output); err != nil {
			d.t.Error(err)
		}
		return output
	})
	d.t.Cleanup(func() { stop() })
	return stop
}

// connects starts switchyard connect. stop waits until it has ended.
func (d *desk) connects(flags ...string) (stop func() string) {
	d.t.Helper()
	return d.starts(append([]string{local.Program("switchyard"), "connect"}, flags...)...)
}

// reports waits until connect status of the machine has a text.
func (d *desk) reports(text string) {
	d.t.Helper()
	d.eventually("connect status of "+d.user, time.Minute, func() error {
		if got := d.runs(local.Program("switchyard"), "connect", "status"); !strings.Contains(got, text) {
			return fmt.Errorf("it has no %q:\n%s", text, got)
		}
		return nil
	})
}

// until waits until a request with the sandbox's key is answered as it should be.
func (d *desk) until(what string, right func(local.Answer) bool) local.Answer {
	d.t.Helper()
	var a local.Answer
	d.eventually(what, time.Minute, func() (err error) {
		if a, err = local.Ask(d.t.Context(), d.client, d.customer, local.Sandbox); err == nil && !right(a) {
			err = fmt.Errorf("it is answered %s", a)
		}
		return err
	})
	return a
}

// always fails the test unless requests with the sandbox's key are all answered as they should be.
func (d *desk) always(what string, right func(local.Answer) bool) {
	d.t.Helper()
	for range 20 {
		a, err := local.Ask(d.t.Context(), d.client, d.customer, local.Sandbox)
		if err != nil || !right(a) {
			d.t.Fatalf("%s: a request with the key is answered %s (%v)", what, a, err)
		}
	}
}

// refused reports whether a request was refused with a reason.
func refused(a local.Answer) bool { return a.Status == http.StatusServiceUnavailable && a.Reason != "" }

// watches sends requests all the time until stop, which returns their counts.
func (d *desk) watches(t *testing.T) (stop func() local.Counts) {
	watch := local.NewWatcher(d.customer, local.Sandbox)
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() { defer close(watched); watch.Run(ctx) }()
	return func() local.Counts {
		cancel()
		<-watched
		t.Logf("%+v", watch.Counts())
		return watch.Counts()
	}
}
