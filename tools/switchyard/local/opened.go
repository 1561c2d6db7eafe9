package local

import (
	"context"
	"strings"

	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/socket"
)

// allowed returns wrong if the running connect of this user refuses a local address of the sandbox,
// with the remedy that it names. Without a running connect it passes: the operator's report has that.
func (e *examined) allowed(context.Context) (string, error) {
	all, err := socket.All[workstation.Status](socket.Folder(e.s.Getenv))
	if err != nil {
		return "", wrong{err.Error(), "end that program, and start " + e.s.Name + " connect again"}
	}
	for _, one := range all {
		for _, w := range one.Workloads {
			for _, p := range w.Ports {
				if w.Sandbox == e.sandbox && p.Refused != "" {
					problem, remedy, _ := strings.Cut(p.Refused, ": ")
					return "", wrong{problem, remedy}
				}
			}
		}
	}
	return "", nil
}
