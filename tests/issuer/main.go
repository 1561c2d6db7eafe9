// Command issuer is an OpenID Connect issuer for tests: the example of github.com/zitadel/oidc, over TLS,
// with its users and passwords. It reports groups and addresses as most issuers do, in the claims of a person
// (userinfo) and not in the ID token.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
)

// grouped is a storage in which all persons have a group.
type grouped struct {
	*storage.Storage
	group string
}

// SetUserinfoFromToken implements op.Storage.
func (g grouped) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, token, subject, origin string) error {
	info.AppendClaims("groups", []string{"everyone", g.group})
	return g.Storage.SetUserinfoFromToken(ctx, info, token, subject, origin)
}

func main() {
	if err := run(); err != nil {
		slog.Error("the issuer ended", "error", err)
		os.Exit(1)
	}
}

func run() error {
	cert := flag.String("cert", "", "file of the certificate, for 127.0.0.1")
	key := flag.String("key", "", "file of its key")
	client := flag.String("client", "", "identifier of the client")
	secret := flag.String("secret", "", "its secret")
	redirect := flag.String("redirect", "", "its redirect URI")
	group := flag.String("group", "", "group of all persons")
	flag.Parse()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	issuer := "https://" + l.Addr().String() + "/"
	storage.RegisterClients(storage.WebClient(*client, *secret, *redirect))
	kept := grouped{storage.NewStorage(storage.NewUserStore(issuer)), *group}
	server := &http.Server{Handler: exampleop.SetupServer(issuer, kept, slog.New(slog.NewTextHandler(os.Stderr, nil)), false), ReadHeaderTimeout: time.Minute}
	fmt.Println(issuer)
	return server.ServeTLS(l, *cert, *key)
}
