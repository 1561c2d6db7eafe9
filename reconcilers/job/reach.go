package job

import (
	"context"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/ticket"
)

// user is the name of the Job controller in the logs of runners.
const user = "the Job controller"

// Reach reaches runners at the addresses of their pods. authority returns the certificates that sign those of runners, in
// PEM, and issue issues a ticket.
func Reach(authority func() ([]byte, error), issue func(c ticket.Claims) (string, time.Time, error)) Runners {
	return func(p *corev1.Pod) (*client.Client, error) {
		signers, err := authority()
		if err != nil {
			return nil, err
		}
		claims := ticket.Claims{PodUID: string(p.UID), JobUID: ticket.AnyJob, User: user, Verbs: []ticket.Verb{ticket.Run}}
		return client.New(client.Runner{
			Address: net.JoinHostPort(p.Status.PodIP, strconv.Itoa(layout.Port)), PodUID: string(p.UID), Authority: signers,
			Ticket: func(context.Context) (string, time.Time, error) { return issue(claims) },
		})
	}
}
