package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"switchyard.dev/controlplane-link/registry"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
)

// Failure returns the status of HTTP, and a text for people, for an error of Open. Without a status it is another
// error, such as one of a connection that was opened.
func Failure(c registry.Cluster, err error) (status int, text string) {
	var refused *carrier.RefusedError
	switch errors.As(err, &refused); {
	case refused != nil && refused.Refused.GetReason() == tunnelv1.Reason_REASON_DESTINATION:
		return http.StatusForbidden, refused.Error()
	case errors.Is(err, ErrNoAgent):
		return http.StatusServiceUnavailable, fmt.Sprintf("The agent of cluster %q is not connected to the control plane. Check Deployment agent of the cluster.", c.Name)
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, fmt.Sprintf("The agent of cluster %q did not open the connection in time. Try again.", c.Name)
	case refused != nil:
		return http.StatusBadGateway, refused.Error()
	}
	return 0, ""
}

// KeptFor names the connections of a user to a Service of a cluster in a pool of connections: those of other users and
// Services, and those through a former agent, have other names. It is no address.
func (s *Server) KeptFor(user string, c registry.Cluster, host string, port uint32) string {
	return fmt.Sprintf("%x", fmt.Appendf(nil, "%s/%s/%s/%d/%s/%d", c.Organisation, user, c.Name, s.Epoch(c), host, port))
}
