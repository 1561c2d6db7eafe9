package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/socket"
)

// What connect status waits for, as the published client calls it.
const (
	waitNone      = "none"
	waitConnect   = "connect"
	waitSandboxes = "sandboxes"
)

// askAgain is how long awaited waits before it asks the running programs again.
const askAgain = 100 * time.Millisecond

// awaited returns the status of the running programs, and the part of the awaited condition that is
// missing, "" once it is met. The error also names programs that did not respond.
func awaited(ctx context.Context, s *command.Session, until string, named []string, patience time.Duration) (all []workstation.Status, missing string, err error) {
	for late := time.After(patience); ; {
		all, err = socket.All[workstation.Status](socket.Folder(s.Getenv))
		missing = lacking(all, until == waitSandboxes, named)
		if missing == "" && err == nil || until == waitNone {
			return all, missing, err
		}
		select {
		case <-time.After(askAgain):
		case <-late:
			return all, missing, err
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
	}
}

// lacking returns the reason why the running programs are not connected, or, with sandboxes, why
// requests of these or of the named ones, which may be too new to be known, do not arrive here;
// empty if there is none.
func lacking(all []workstation.Status, sandboxes bool, named []string) string {
	if len(all) == 0 {
		return "nothing runs that connects this workstation"
	}
	for _, one := range all {
		switch {
		case !one.Connected:
			return "there is no connection: " + cmp.Or(one.Trouble, "it is being made")
		case !sandboxes:
		case one.Unsure != "" || one.Asks:
			return "it is not known which sandboxes are yours: " + cmp.Or(one.Unsure, "tunnel-api has not answered yet")
		}
		for _, w := range one.Workloads {
			if sandboxes && counts(w) && (!w.Open || w.Message != "") {
				return fmt.Sprintf("requests for %s/%s are not routed here: %s", w.Sandbox, w.Name, cmp.Or(w.Message, "the cluster does not route them here yet"))
			}
		}
	}
	for _, name := range named {
		brings := func(one workstation.Status) bool {
			return slices.ContainsFunc(one.Workloads, func(w workstation.WorkloadStatus) bool { return w.Sandbox == name })
		}
		for _, one := range all {
			for _, w := range one.Workloads {
				if sandboxes && w.Sandbox == name && !counted(all, w) {
					return fmt.Sprintf("requests for %s/%s are not routed here: %s", w.Sandbox, w.Name, w.Message)
				}
			}
		}
		if sandboxes && !slices.ContainsFunc(all, brings) {
			return fmt.Sprintf("no external workload of a sandbox %s of yours is known here", name)
		}
	}
	return ""
}

// counts reports whether a workload is waited for: its user allows an address of it, and no other
// session holds it.
func counts(w workstation.WorkloadStatus) bool { return w.Allowed && w.Holder == "" }

// counted reports whether a workload of one program counts in that or in another one.
func counted(all []workstation.Status, of workstation.WorkloadStatus) bool {
	return slices.ContainsFunc(all, func(one workstation.Status) bool {
		return slices.ContainsFunc(one.Workloads, func(w workstation.WorkloadStatus) bool {
			return w.Sandbox == of.Sandbox && w.Name == of.Name && counts(w)
		})
	})
}

// uncounted returns a line for each workload that is not waited for.
func uncounted(all []workstation.Status) (out []string) {
	for _, one := range all {
		for _, w := range one.Workloads {
			if !counted(all, w) {
				out = append(out, fmt.Sprintf("not waited for: %s/%s: %s", w.Sandbox, w.Name, w.Message))
			}
		}
	}
	return out
}
