package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"google.golang.org/grpc/status"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"switchyard.dev/controlplane-link/registry"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
)

// trafficManager is the Service of the replicas of traffic-manager, and trafficPort the name of their port.
const trafficManager, trafficPort = "traffic-manager", "grpc"

// ServeTraffic answers one connection to traffic-manager that a caller requests, and ends with it or with ctx.
func (a *Agent) ServeTraffic(ctx context.Context, in *carrier.Incoming, caller *linkv1.Caller, to *linkv1.Traffic) {
	record := a.cfg.Record.With("trafficCapture", to.GetCaptureNamespace()+"/"+to.GetCapture(), "replica", to.GetReplica())
	far, t, refused := a.openTraffic(ctx, caller, to)
	if far != nil {
		record = record.With("address", far.RemoteAddr().String())
	}
	answer(ctx, in, record, trafficManager, far, t, refused)
}

// openTraffic returns a connection to a replica, if one is requested, and the ticket for it.
func (a *Agent) openTraffic(ctx context.Context, caller *linkv1.Caller, to *linkv1.Traffic) (net.Conn, *linkv1.TrafficTicket, *tunnelv1.Refused) {
	if caller.GetName() != "" || len(caller.GetRoles()) > 0 {
		return nil, nil, refuse(tunnelv1.Reason_REASON_FORBIDDEN, "Users do not reach traffic-manager through the link: read the capture in the control plane.")
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	out := &linkv1.TrafficTicket{}
	addresses, err := a.trafficManagers(ctx)
	if err != nil {
		return nil, nil, refuse(tunnelv1.Reason_REASON_UNAVAILABLE, "The replicas of traffic-manager are not known: %s.", err)
	}
	for name := range addresses {
		out.Replicas = append(out.Replicas, name)
	}
	slices.Sort(out.Replicas)
	if to.GetCapture() != "" {
		t, err := a.trafficTicket(ctx, to)
		if err != nil {
			return nil, nil, refuse(cmp.Or(reasons[status.Code(err)], tunnelv1.Reason_REASON_UNAVAILABLE), "The agent has no ticket for TrafficCapture %.64s/%.253s: %s.",
				to.GetCaptureNamespace(), to.GetCapture(), cmp.Or(status.Convert(err).Message(), err.Error()))
		}
		out.Ticket, out.Expires, out.Authority, out.ServerName = t.GetTicket(), t.GetExpires(), t.GetAuthority(), t.GetServerName()
	}
	if to.GetReplica() == "" {
		return nil, out, nil
	}
	at := addresses[to.GetReplica()]
	if at == "" {
		return nil, nil, refuse(tunnelv1.Reason_REASON_NOT_FOUND, "There is no replica %.253q of traffic-manager that is ready.", to.GetReplica())
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, nil, refuse(tunnelv1.Reason_REASON_UNAVAILABLE, "Replica %s of traffic-manager is not reached: %s.", to.GetReplica(), err)
	}
	return conn, out, nil
}

// trafficManagers returns the addresses of the replicas that are ready, by the names of their pods.
func (a *Agent) trafficManagers(ctx context.Context) (map[string]string, error) {
	all, err := a.cfg.Slices.List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + trafficManager})
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, s := range all.Items {
		at := slices.IndexFunc(s.Ports, func(p discoveryv1.EndpointPort) bool { return ptr.Deref(p.Name, "") == trafficPort && p.Port != nil })
		for _, e := range s.Endpoints {
			if at >= 0 && e.TargetRef != nil && len(e.Addresses) > 0 && ptr.Deref(e.Conditions.Ready, true) {
				out[e.TargetRef.Name] = net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*s.Ports[at].Port)))
			}
		}
	}
	if len(all.Items) == 0 {
		return nil, errors.New("there is no Service " + trafficManager + " of the operator: install it with trafficManager.enabled")
	}
	return out, nil
}

// trafficTicket asks the operator for a ticket for a capture.
func (a *Agent) trafficTicket(ctx context.Context, to *linkv1.Traffic) (*trafficv1.TicketAnswer, error) {
	ctx, err := a.shows(ctx)
	if err != nil {
		return nil, err
	}
	return trafficv1.NewTicketsClient(a.conn).Ticket(ctx, &trafficv1.TicketRequest{CaptureNamespace: to.GetCaptureNamespace(), Capture: to.GetCapture()})
}

// OpenTraffic returns a connection to a replica of traffic-manager, which begins with TLS, and the ticket for it; without a replica
// no connection. The error is as that of the Opener: a *carrier.RefusedError if the agent refuses.
func OpenTraffic(ctx context.Context, through Opener, c registry.Cluster, to *linkv1.Traffic) (net.Conn, *linkv1.TrafficTicket, error) {
	ticket := &linkv1.TrafficTicket{}
	conn, err := opened(ctx, through, c, &linkv1.Open{To: &linkv1.Open_Traffic{Traffic: to}, Bulk: to.GetReplica() != ""}, ticket)
	if err != nil {
		return nil, nil, fmt.Errorf("traffic-manager of cluster %s: %w", c.Name, err)
	}
	if to.GetReplica() == "" {
		return nil, ticket, conn.Close()
	}
	return conn, ticket, nil
}
