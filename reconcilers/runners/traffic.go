package runners

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/ticket"
)

// TicketKeysName is the ConfigMap with the public keys of tickets of captures, in TicketKeysFile. The chart creates it
// where there is a traffic-manager, which checks these tickets.
const (
	TicketKeysName = "traffic-ticket-keys"
	TicketKeysFile = "keys.json"
)

// captures issues tickets for TrafficCaptures.
type captures struct {
	trafficv1.UnimplementedTicketsServer
	*server
}

// Ticket implements trafficv1.TicketsServer. It does not depend on whether the capture exists.
func (c captures) Ticket(ctx context.Context, r *trafficv1.TicketRequest) (*trafficv1.TicketAnswer, error) {
	user, from, leave, err := c.enterUser(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	namespace, name := r.GetCaptureNamespace(), r.GetCapture()
	if namespace == "" || name == "" || max(len(namespace), len(name)) > maxName {
		return nil, status.Error(codes.InvalidArgument, "name the TrafficCapture that the ticket is for, and its namespace")
	}
	allowed := slices.Contains(c.cfg.Accounts, user.Name)
	if !allowed {
		if allowed, err = c.mayReadLogs(ctx, user, namespace); err != nil {
			return nil, err
		}
	}
	if !allowed {
		return nil, status.Errorf(codes.PermissionDenied, "%.253s may not read recorded requests in namespace %.253s: that takes the right to get pods/log there", user.Name, namespace)
	}
	issued, expires, err := c.cfg.Keys.issueCapture(ticket.Claims{Namespace: namespace, Capture: name, User: user.Name})
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	c.cfg.Logger.Info("a ticket was issued", "user", user.Name, "from", from, "trafficCapture", namespace+"/"+name)
	return &trafficv1.TicketAnswer{Ticket: issued, Expires: timestamppb.New(expires), Authority: []byte(c.cfg.Authority()), ServerName: c.cfg.TrafficManager}, nil
}

// issueCapture issues a ticket for a capture.
func (k *Keeper) issueCapture(c ticket.Claims) (string, time.Time, error) {
	if keys := k.keys.Load(); keys != nil {
		return ticket.Issue(keys.tickets, c, time.Now())
	}
	return "", time.Time{}, errNoKeys
}

// publish writes the public keys into their ConfigMap, if there is one.
func (k *Keeper) publish(ctx context.Context, keys *Keys) error {
	if k.ConfigMaps == nil {
		return nil
	}
	in, err := k.ConfigMaps.Get(ctx, TicketKeysName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if text := keys.captures.String(); err == nil && in.Data[TicketKeysFile] != text {
		in.Data = map[string]string{TicketKeysFile: text}
		_, err = k.ConfigMaps.Update(ctx, in, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("publish the keys of tickets of captures in ConfigMap %s: %w", TicketKeysName, err)
	}
	return nil
}
