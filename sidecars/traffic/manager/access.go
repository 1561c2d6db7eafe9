package manager

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/streams"
	"switchyard.dev/eventbus/callers/tokens"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/sidecars/traffic/ticket"
	"switchyard.dev/xds/serve"
)

// Audience is that of the tokens of traffic containers, and of accounts that read all captures.
const Audience = "traffic.signadot.com"

// verify returns the identity of a token. The errors are those of tokens.Verifier.
func (s *server) verify(ctx context.Context, token string) (tokens.Identity, error) {
	_, from, err := streams.Bearer(ctx)
	if err != nil {
		return tokens.Identity{}, err
	}
	return s.tokens.VerifyAdmitted(ctx, token, func(signed *tokens.Claim) (func(), error) { return s.checks.Enter(streams.Charged(from, signed)) })
}

// enter counts a call of a caller with a valid token, until leave is called.
func (s *server) enter(ctx context.Context, pool *callers.Pool, name string) (leave func(), err error) {
	_, from, err := streams.Bearer(ctx)
	if err != nil {
		return nil, err
	}
	leave, err = pool.Enter(callers.Caller{Kind: callers.Pod, Name: name})
	if err != nil {
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	streams.Named(ctx)
	s.known(from, name)
	return leave, nil
}

// DeploymentName is the name of the Deployment of traffic-manager, in its namespace.
const DeploymentName = "traffic-manager"

// isReplica reports whether a pod is one of traffic-manager, which records the requests of members without pods.
func (s *server) isReplica(who serve.Peer) bool {
	return who.Workload == table.Workload{Kind: "Deployment", Namespace: s.cfg.Namespace, Name: DeploymentName}
}

// sidecar returns the pod that calls: of a fork, or of traffic-manager.
func (s *server) sidecar(ctx context.Context, pool *callers.Pool) (who serve.Peer, leave func(), err error) {
	token, _, err := streams.Bearer(ctx)
	if err != nil {
		return who, nil, err
	}
	if who, err = s.forks.Identify(ctx, token); err != nil {
		return who, nil, err
	}
	is := s.isReplica(who)
	if !is {
		is, err = s.cluster.isFork(ctx, who.Workload)
	}
	switch {
	case err != nil:
		return who, nil, status.Error(codes.Unavailable, err.Error())
	case !is:
		return who, nil, status.Errorf(codes.PermissionDenied, "pod %s/%s is not of a fork: no ForkedWorkload names %s %s", who.Namespace, who.Pod, who.Workload.Kind, who.Workload.Name)
	}
	leave, err = s.enter(ctx, pool, who.UID)
	return who, leave, err
}

// reader returns the UID of a capture that the caller can read.
func (s *server) reader(ctx context.Context, namespace, name string) (uid string, leave func(), err error) {
	shown, _, err := streams.Bearer(ctx)
	if err != nil {
		return "", nil, err
	}
	user, err := s.permitted(ctx, shown, namespace, name)
	if err != nil {
		return "", nil, err
	}
	if leave, err = s.enter(ctx, s.reads, user); err != nil {
		return "", nil, err
	}
	if uid, err = s.find(ctx, namespace, name); err != nil {
		leave()
		return "", nil, err
	}
	return uid, leave, nil
}

// permitted returns the name of the reader that shows a ticket or a token.
func (s *server) permitted(ctx context.Context, shown, namespace, name string) (user string, err error) {
	if !tokens.MadeFor(shown, Audience, s.cfg.Clock()) {
		keys := &ticket.Keys{}
		if s.cfg.TicketKeys != nil {
			keys = cmp.Or(s.cfg.TicketKeys(), keys)
		}
		claims, err := keys.Check(shown, s.cfg.Clock())
		if err != nil {
			return "", status.Error(codes.Unauthenticated, err.Error())
		}
		if err := claims.Permits(namespace, name); err != nil {
			return "", status.Error(codes.PermissionDenied, err.Error())
		}
		return claims.User, nil
	}
	who, err := s.verify(ctx, shown)
	switch {
	case errors.Is(err, tokens.ErrUnknown):
		return "", status.Error(codes.Unauthenticated, err.Error())
	case err != nil:
		return "", status.Error(codes.Unavailable, "the token could not be checked: try again")
	case !slices.Contains(s.cfg.Readers, who.Namespace+":"+who.ServiceAccount):
		return "", status.Errorf(codes.PermissionDenied, "account %s cannot read captures: request a ticket", who)
	}
	return who.String(), nil
}

// find returns the UID of a capture: of the object that exists, or else of the last one with that name.
func (s *server) find(ctx context.Context, namespace, name string) (string, error) {
	all, err := s.cluster.captures(ctx, namespace)
	if err != nil {
		return "", status.Error(codes.Unavailable, err.Error())
	}
	for i := range all {
		if all[i].Name == name && all[i].Namespace == namespace {
			uid := string(all[i].UID)
			s.books.grant("", &trafficv1.Capture{Uid: uid, Namespace: namespace, Name: name})
			return uid, nil
		}
	}
	if uid := s.books.find(namespace, name); uid != "" {
		return uid, nil
	}
	return "", status.Errorf(codes.NotFound, "there is no TrafficCapture %.64s/%.253s, and this replica stores no exchange of a former one", namespace, name)
}
