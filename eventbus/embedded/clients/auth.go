// Package clients admits clients to the NATS server of the routing log, with the permissions of
// their role.
//
//	Front          the port for clients, and the bound on their number
//	Authenticator  the role of a client, by its token
//	Accounts       the part of the server that each role sees
//	Guard          how many consumers followers can have
package clients

import (
	"context"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/embedded/store"
	"switchyard.dev/eventbus/jetstream"
)

// The log lives in store.Account. Followers are in an account of their own,
// which sees of the other nothing but the calls that reading takes.
//
// Permissions alone are not enough: the server sends an answer wherever the request asks,
// without checking whether the client could publish there. In one account with the log, a
// follower could have answers recorded as facts, by giving the subject of a fact as the reply
// subject. In its own account that subject has no stream.
const followersAccount = "FOLLOWERS"

// The records of connections are in an account of their own, RecordsAccount, and the clients
// that add to them and that read them in two others, for the same reason: in one account with
// the stream, either could make an answer a command to it.
const (
	RecordsAccount   = "CONNECTIONS"
	recordersAccount = "RECORDERS"
	auditorsAccount  = "AUDITORS"
)

// Accounts returns the accounts in the server's configuration language, the only
// way to give an account JetStream.
func Accounts() string {
	facts := opening{from: store.Account, to: followersAccount}
	for _, call := range readAPI {
		facts.add(gated(call), connect.FollowerAPI+strings.TrimPrefix(call, api), call == nextAPI)
	}
	adding := opening{from: RecordsAccount, to: recordersAccount}
	adding.add(connect.RecordsSubject, connect.RecordsSubject, false)
	reading := opening{from: RecordsAccount, to: auditorsAccount}
	for _, call := range auditAPI {
		reading.add(call, connect.AuditorAPI+strings.TrimPrefix(call, api), false)
	}
	return fmt.Sprintf("accounts {\n%s {jetstream: enabled, exports: [\n%s]}\n%s {imports: [\n%s]}\n"+
		"%s {jetstream: enabled, exports: [\n%s%s]}\n%s {imports: [\n%s]}\n%s {imports: [\n%s]}\n}\n",
		store.Account, &facts.exports, followersAccount, &facts.imports,
		RecordsAccount, &adding.exports, &reading.exports, recordersAccount, &adding.imports, auditorsAccount, &reading.imports)
}

// opening is what one account sees of another.
type opening struct {
	from, to         string
	exports, imports strings.Builder
}

// add lets a question through, to another subject. many: it has more than one answer.
func (o *opening) add(subject, as string, many bool) {
	kind := "singleton"
	if many {
		kind = "stream"
	}
	fmt.Fprintf(&o.exports, "{service: %q, response_type: %s, accounts: [%s]}\n", subject, kind, o.to)
	fmt.Fprintf(&o.imports, "{service: {account: %s, subject: %q}, to: %q}\n", o.from, subject, as)
}

// AuthTimeout is how long a new connection has to present its token and to have it
// checked.
const AuthTimeout = 5 * time.Second

// Authenticator is asked by the server for each new connection.
type Authenticator struct {
	// Authenticate returns the role of a client by its token; an error refuses it. The context
	// carries the caller (callers.From). Nil: no client has a role.
	Authenticate func(ctx context.Context, token string) (connect.Role, error)
	// Secret is the token of connections from inside the process, which may do anything.
	Secret string
	// RecordsSecret is that of connections that may do anything to the records of connections.
	RecordsSecret string
	// Server is the one that asks; it is set before the server takes connections.
	Server *server.Server
	// Front is where clients come in; nil without a listener.
	Front *Front
	// Closed refuses all clients: the server is shutting down.
	Closed atomic.Bool
	// Logger records admitted and refused clients.
	Logger *slog.Logger
}

// Check implements server.Authentication.
func (a *Authenticator) Check(c server.ClientAuthentication) bool {
	if a.Closed.Load() {
		return false
	}
	token := c.GetOpts().Token
	if subtle.ConstantTimeCompare([]byte(token), []byte(a.Secret)) == 1 {
		return a.admit(c, store.Account, nil)
	}
	if a.RecordsSecret != "" && subtle.ConstantTimeCompare([]byte(token), []byte(a.RecordsSecret)) == 1 {
		return a.admit(c, RecordsAccount, nil)
	}
	if a.Authenticate == nil {
		return false
	}
	remote := c.RemoteAddress().String()
	if a.Front != nil {
		remote = a.Front.client(remote)
	}
	log := a.Logger.With("remote", remote, "name", c.GetOpts().Name)
	ctx, cancel := context.WithTimeout(callers.With(context.Background(), callers.At(remote)), AuthTimeout)
	defer cancel()
	role, err := a.Authenticate(ctx, token)
	if err != nil {
		log.Warn("refused a client of the event bus", "reason", err)
		return false
	}
	in, permissions := permissionsOf(role)
	if permissions == nil {
		log.Error("refused a client of the event bus", "reason", "it was given a role that does not exist", "role", int(role))
		return false
	}
	if !a.admit(c, in, permissions) {
		log.Error("refused a client of the event bus", "reason", "its account does not exist")
		return false
	}
	if a.Front != nil {
		a.Front.listener.Identify(remote)
	}
	log.Info("a client connected to the event bus", "account", in)
	return true
}

// admit lets a client in, to an account.
func (a *Authenticator) admit(c server.ClientAuthentication, name string, permissions *server.Permissions) bool {
	account, err := a.Server.LookupAccount(name)
	if err != nil {
		return false
	}
	c.RegisterUser(&server.User{Account: account, Permissions: permissions})
	return true
}

// The API of JetStream, and what of it concerns the one stream.
const (
	api    = "$JS.API"
	stream = jetstream.StreamName
)

// readAPI is what reading the log takes.
var readAPI = [...]string{
	api + ".STREAM.INFO." + stream,
	api + ".STREAM.MSG.GET." + stream,
	createAPI,
	api + ".CONSUMER.INFO." + stream + ".*",
	api + ".CONSUMER.DELETE." + stream + ".*",
	nextAPI,
}

// nextAPI answers with many messages, the others with one.
const nextAPI = api + ".CONSUMER.MSG.NEXT." + stream + ".*"

// auditAPI is what reading the records of connections takes.
var auditAPI = [...]string{
	api + ".STREAM.INFO." + connect.RecordsStream,
	api + ".STREAM.MSG.GET." + connect.RecordsStream,
}

// permissionsOf returns the account of the clients of a role and their permissions; nil for no
// role.
func permissionsOf(role connect.Role) (in string, _ *server.Permissions) {
	var publish []string
	switch role {
	case connect.Follower:
		in = followersAccount
		for _, call := range readAPI {
			publish = append(publish, connect.FollowerAPI+strings.TrimPrefix(call, api))
		}
	case connect.Writer:
		in = store.Account
		publish = slices.Concat(readAPI[:], []string{
			jetstream.Subjects,
			api + ".STREAM.CREATE." + stream,
			api + ".STREAM.UPDATE." + stream,
			api + ".STREAM.DELETE." + stream,
			api + ".STREAM.PURGE." + stream,
		})
	case connect.Recorder:
		in, publish = recordersAccount, []string{connect.RecordsSubject}
	case connect.Auditor:
		in = auditorsAccount
		for _, call := range auditAPI {
			publish = append(publish, connect.AuditorAPI+strings.TrimPrefix(call, api))
		}
	default:
		return "", nil
	}
	return in, &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: publish},
		Subscribe: &server.SubjectPermission{Allow: []string{role.InboxPrefix() + ".>"}},
	}
}
