package access

import (
	"context"
	"errors"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/controlkeys"
	"switchyard.dev/tunnels/identity"
)

// credential returns the user of a control plane's credential. The answer is not cached, so that one of a
// removed key is refused as soon as the keys were read again.
func (a *Access) credential(ctx context.Context, token, from string) (identity.User, *tunnelv1.Refused) {
	if a.cfg.Credentials == nil {
		return identity.User{}, unauthenticated("credentials of a control plane are not accepted here")
	}
	user, err := a.cfg.Credentials.Check(ctx, token)
	switch {
	case errors.Is(err, controlkeys.ErrUnavailable):
		return identity.User{}, a.unavailable("for the keys of the control plane", err)
	case err != nil:
		a.cfg.Logger.Debug("a credential of the control plane was refused", "from", from, "error", err)
		return identity.User{}, unauthenticated("%s", err)
	}
	a.cfg.Logger.Debug("a credential of the control plane was accepted", "from", from, "user", user.Name)
	return user, nil
}
