package status

import (
	"strings"

	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/socket"
)

// Refused returns why the running programs of this user refuse a local address of a sandbox, and the
// remedy that one names; both are empty if none runs, or one serves the workload.
func Refused(s *command.Session, sandbox string) (problem, remedy string, err error) {
	all, err := socket.All[workstation.Status](socket.Folder(s.Getenv))
	for _, one := range all {
		for _, w := range one.Workloads {
			for _, p := range w.Ports {
				if w.Sandbox == sandbox && p.Refused != "" && !counted(all, w) {
					problem, remedy, _ = strings.Cut(p.Refused, ": ")
					return problem, remedy, nil
				}
			}
		}
	}
	return "", "", err
}
