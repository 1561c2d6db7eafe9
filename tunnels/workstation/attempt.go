package workstation

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"switchyard.dev/eventbus/trust"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
)

// Try connects once, under an epoch, and returns the session. The error is a Trouble.
func (w *Workstation) Try(ctx context.Context, epoch uint64) (*carrier.Session, *tunnelv1.Welcome, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	s, welcome, trouble := w.try(ctx, epoch, false)
	if trouble != nil && trouble.again() {
		s, welcome, trouble = w.try(ctx, epoch, true)
	}
	if trouble != nil {
		return nil, nil, trouble
	}
	return s, welcome, nil
}

// again reports whether an outdated token or outdated roots may be the cause of a trouble.
func (t *Trouble) again() bool {
	return t.Part == PartCertificate || isRefused(t.Err)
}

// isStranger reports whether the tunnel proxy or the API server rejects the user's token.
func isStranger(err error) bool { return isRefused(err) || apierrors.IsUnauthorized(err) }

// isRefused reports whether the tunnel proxy rejects the user's token.
func isRefused(err error) bool {
	var refused *carrier.RefusedError
	return errors.As(err, &refused) && refused.Refused.GetReason() == tunnelv1.Reason_REASON_UNAUTHENTICATED
}

func (w *Workstation) try(ctx context.Context, epoch uint64, again bool) (*carrier.Session, *tunnelv1.Welcome, *Trouble) {
	if known, _ := w.cfg.Roots.Bundle(); w.cfg.Refresh != nil && (again || known == nil) {
		if err := w.cfg.Refresh(ctx); err != nil {
			return nil, nil, &Trouble{PartCertificate, isFinal(err), err}
		}
	}
	token, err := w.cfg.Token(ctx, again)
	if err != nil {
		return nil, nil, &Trouble{PartToken, isFinal(err), err}
	}
	w.mu.Lock()
	w.shown = token
	w.mu.Unlock()
	conn, err := w.cfg.Road.Dial(ctx)
	if err != nil {
		return nil, nil, &Trouble{PartRoad, isFinal(err), err}
	}
	secure, trouble := w.secure(ctx, conn)
	if trouble != nil {
		_ = conn.Close()
		return nil, nil, trouble
	}
	s, welcome, err := carrier.Connect(ctx, secure, &tunnelv1.Hello{
		Version: carrier.Version, Token: token, Session: w.cfg.Session, Epoch: epoch, Labels: w.cfg.Labels,
		Age: durationpb.New(time.Since(w.began)),
	})
	if err != nil {
		return nil, nil, refusedBy(err)
	}
	return s, welcome, nil
}

// secure performs the TLS handshake on a connection.
func (w *Workstation) secure(ctx context.Context, conn net.Conn) (net.Conn, *Trouble) {
	secure := tls.Client(conn, w.cfg.Roots.Client(w.cfg.Name))
	err := secure.HandshakeContext(ctx)
	var plain tls.RecordHeaderError
	var untrusted *trust.UntrustedError
	switch {
	case err == nil:
		return secure, nil
	case errors.As(err, &plain):
		return nil, &Trouble{PartCertificate, true, errors.New("the server does not speak TLS: it is not a tunnel proxy, or not its port 7777")}
	case errors.As(err, &untrusted):
		return nil, &Trouble{PartCertificate, true, fmt.Errorf("the tunnel proxy's certificate is not trusted, so nothing was sent to it: %w", err)}
	}
	return nil, &Trouble{PartRoad, false, fmt.Errorf("the connection to the tunnel proxy broke before it answered: %w", err)}
}

// refusedBy converts the error of a session that did not begin.
func refusedBy(err error) *Trouble {
	var refused *carrier.RefusedError
	if !errors.As(err, &refused) {
		return &Trouble{PartSession, false, err}
	}
	switch refused.Refused.GetReason() {
	case tunnelv1.Reason_REASON_UNAUTHENTICATED:
		return &Trouble{PartToken, true, fmt.Errorf("the cluster does not know who you are: %w", err)}
	case tunnelv1.Reason_REASON_FORBIDDEN, tunnelv1.Reason_REASON_INVALID:
		return &Trouble{PartSession, true, err}
	}
	return &Trouble{PartSession, false, err}
}
