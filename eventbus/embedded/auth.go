package embedded

import (
	"context"
	"crypto/subtle"

	"github.com/nats-io/nats-server/v2/server"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/jetstream"
)

// authenticator is asked by the server for each new connection.
type authenticator struct {
	config Config
	secret string
}

// Check implements server.Authentication.
func (a *authenticator) Check(c server.ClientAuthentication) bool {
	token := c.GetOpts().Token
	if subtle.ConstantTimeCompare([]byte(token), []byte(a.secret)) == 1 {
		return true
	}
	log := a.config.Logger.With("remote", c.RemoteAddress().String(), "name", c.GetOpts().Name)
	ctx, cancel := context.WithTimeout(context.Background(), AuthTimeout)
	defer cancel()
	role, err := a.config.Authenticate(ctx, token)
	if err != nil {
		log.Warn("refused a client of the event bus", "reason", err)
		return false
	}
	permissions := permissionsOf(role)
	if permissions == nil {
		log.Error("refused a client of the event bus", "reason", "it was given a role that does not exist", "role", int(role))
		return false
	}
	c.RegisterUser(&server.User{Username: role.InboxPrefix(), Permissions: permissions})
	log.Info("a client connected to the event bus", "writer", role == connect.Writer)
	return true
}

// permissionsOf gives what the clients of a role may do; nil for no role.
func permissionsOf(role connect.Role) *server.Permissions {
	const api = "$JS.API."
	const stream = jetstream.StreamName
	publish := []string{
		api + "STREAM.INFO." + stream,
		api + "STREAM.MSG.GET." + stream,
		api + "CONSUMER.CREATE." + stream + ".>",
		api + "CONSUMER.INFO." + stream + ".*",
		api + "CONSUMER.DELETE." + stream + ".*",
		api + "CONSUMER.MSG.NEXT." + stream + ".*",
	}
	switch role {
	case connect.Follower:
	case connect.Writer:
		publish = append(publish,
			jetstream.Subjects,
			api+"STREAM.CREATE."+stream,
			api+"STREAM.UPDATE."+stream,
			api+"STREAM.DELETE."+stream,
		)
	default:
		return nil
	}
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: publish},
		Subscribe: &server.SubjectPermission{Allow: []string{role.InboxPrefix() + ".>"}},
	}
}
