// Package beside has a control plane on a machine beside the cluster, in a process of its own, and its honest callers:
// agents of clusters that share one address, users with an API key, and another replica.
package beside

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"switchyard.dev/controlplane-link/certificates"
	"switchyard.dev/controlplane-link/controlplane"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/controlplane-link/credentials"
	"switchyard.dev/tests/link/plane"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/selfsigned"
)

// Role is the role of the process of the control plane. It answers with a Server.
const Role = "controlplane"

// API, Proxy and Previews are the ports of the REST API, of connections of users to Services, and of previews. The
// others are those of a link server (tests/link/plane).
const API, Proxy, Previews = 8443, 8444, 8445

// domain is that of the previews. Each cluster has a sandbox of its name.
const domain = "preview.example.net"

// Server is the control plane, as another process calls it.
type Server struct{}

// Orders name the folder of its files, and the address of its machine.
type Orders struct{ Folder, Address string }

// Serve begins to serve.
func (*Server) Serve(o Orders, _ *struct{}) error {
	ctrllog.SetLogger(logr.Discard())
	// Logs are written, and discarded.
	c, err := plane.Config(o.Folder, o.Address, slog.New(slog.NewJSONHandler(io.Discard, nil)))
	if err != nil {
		return err
	}
	keys, err := seal.Parse("first " + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if err != nil {
		return err
	}
	if err := os.Setenv("CONTROLPLANE_SOCKET", filepath.Join(o.Folder, "admin.sock")); err != nil {
		return err
	}
	pair, err := selfsigned.New("*." + domain)
	if err != nil {
		return err
	}
	previews := filepath.Join(o.Folder, "previews")
	if err := errors.Join(os.Mkdir(previews, 0o700), pair.Write(previews)); err != nil {
		return err
	}
	main, err := controlplane.New(context.Background(), controlplane.Config{
		Previews:      controlplane.Previews{Address: net.JoinHostPort(o.Address, strconv.Itoa(Previews)), Domains: map[string]string{plane.Organisation: domain}, Certificates: certificates.Config{Dir: previews}},
		AgentsAddress: c.AgentsAddress, ProxyAddress: net.JoinHostPort(o.Address, strconv.Itoa(Proxy)), MetricsAddress: c.MetricsAddress, ReplicasAddress: c.ReplicasAddress,
		APIAddress: net.JoinHostPort(o.Address, strconv.Itoa(API)), Store: store.Config{Path: filepath.Join(o.Folder, "store.db"), Keys: keys},
		Link: c.Server, TLS: c.TLS, Replicas: c.TLS, SigningKey: c.SigningKey, Logger: c.Logger,
	})
	if err != nil {
		return err
	}
	if err := fill(main.Store(), c.Credentials); err != nil {
		return err
	}
	go func() { panic(fmt.Sprint("the control plane has ended: ", main.Run(context.Background()))) }()
	return nil
}

// fill adds the users and the clusters of a file of credentials to a store.
func fill(s *store.Store, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	known, err := credentials.Parse(text)
	if err != nil {
		return err
	}
	ctx, now := context.Background(), time.Now().UTC().Truncate(time.Microsecond)
	ev := func() model.Event {
		return model.Event{Org: plane.Organisation, ID: rand.Text(), Type: "fill", At: now, By: model.Principal{Kind: model.KindSystem}, Method: model.MethodInternal}
	}
	err = s.CreateOrganisation(ctx, model.Organisation{Name: plane.Organisation, CreatedAt: now}, ev())
	for _, k := range known.APIKeys {
		err = errors.Join(err, s.PutUser(ctx, model.User{Org: k.Organisation, ID: k.User, Email: k.User, Role: model.RoleMember, CreatedAt: now, UpdatedAt: now}, ev()),
			s.CreateAPIKey(ctx, model.APIKey{Org: k.Organisation, ID: k.User, Owner: model.Principal{Kind: model.KindUser, ID: k.User}, Digest: k.Sum, CreatedAt: now}, ev()))
	}
	for _, k := range known.ClusterTokens {
		err = errors.Join(err, s.CreateCluster(ctx, model.Cluster{Org: k.Organisation, Name: k.Clusters[0], CreatedAt: now}, ev()),
			s.CreateClusterToken(ctx, model.ClusterToken{Org: k.Organisation, Cluster: k.Clusters[0], ID: k.Clusters[0], Digest: k.Sum, CreatedAt: now}, ev()),
			addSandbox(ctx, s, k.Clusters[0], ev()))
	}
	return err
}

// addSandbox adds the sandbox of a cluster, which is ready.
func addSandbox(ctx context.Context, s *store.Store, cluster string, ev model.Event) error {
	const spec = `{"cluster":%q,"defaultRouteGroup":{"endpoints":[{"name":"web","target":"http://web.shop.svc"}]}}`
	box := model.Sandbox{Org: plane.Organisation, Name: cluster, Cluster: cluster, RoutingKey: "key-" + cluster, Spec: fmt.Appendf(nil, spec, cluster), CreatedAt: ev.At, UpdatedAt: ev.At}
	box, err := s.PutSandbox(ctx, box, ev)
	if err != nil {
		return err
	}
	_, err = s.Observe(ctx, store.Sandbox, box.Org, box.Name, cluster, model.Status{Ready: true, Generation: box.Generation, Applied: box.Generation, Attempted: box.Generation})
	return err
}

// The names of clusters: those of Site.Agents, and those of Site.Connect.
var sharing, calling = names("shared"), names("calling")

func names(beginning string) (all []string) {
	for n := range clusters {
		all = append(all, fmt.Sprint(beginning, "-", n))
	}
	return all
}

// Dial connects from the address of honest callers.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Site is the control plane with its honest callers.
type Site struct {
	*plane.Plane
	// Agents are those of the clusters.
	Agents []*Agent

	server *process.Process
	dial   Dial
	end    context.CancelFunc
	turn   atomic.Int64
}

// Open starts the control plane and the agents, and waits for their sessions. The caller calls Close, also after an
// error.
func Open(ctx context.Context, dial Dial) (s *Site, err error) {
	s = &Site{dial: dial, end: func() {}}
	if s.Plane, err = plane.New(ctx, slices.Concat(sharing, calling)...); err != nil {
		return s, err
	}
	if s.server, err = process.Start(Role, "ip", "netns", "exec", s.Machine.Name); err != nil {
		return s, err
	}
	if err := s.server.Call("Serve", Orders{s.Folder, s.Machine.Address}, nil); err != nil {
		return s, fmt.Errorf("start the control plane: %w", err)
	}
	ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	return s, s.startAgents(ctx, sharing)
}

// Close ends all.
func (s *Site) Close() (err error) {
	s.end()
	if s.server != nil {
		err = s.server.Close()
	}
	return errors.Join(err, s.Remove())
}

// ID is that of the process of the control plane.
func (s *Site) ID() int { return s.server.ID() }

// next returns the agents in turn.
func (s *Site) next() *Agent { return s.Agents[int(s.turn.Add(1))%len(s.Agents)] }
