package status

import (
	"strings"

	"switchyard.dev/protos/problems"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/socket"
)

// Refused returns a *problems.Problem if the running programs of this user refuse a local address of a
// sandbox, or cannot be asked; nil if none runs, or one serves the workload.
func Refused(s *command.Session, sandbox string) error {
	all, err := socket.All[workstation.Status](socket.Folder(s.Getenv))
	for _, one := range all {
		for _, w := range one.Workloads {
			for _, p := range w.Ports {
				if w.Sandbox == sandbox && p.Refused != "" && !counted(all, w) {
					problem, remedy, _ := strings.Cut(p.Refused, ": ")
					return &problems.Problem{Message: problem, Fix: remedy}
				}
			}
		}
	}
	if err != nil {
		return &problems.Problem{Message: err.Error(), Fix: "end that program, and start " + s.Name + " connect again"}
	}
	return nil
}
