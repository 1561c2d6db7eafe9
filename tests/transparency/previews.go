package transparency

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tests/link/previews"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/selfsigned"
	"switchyard.dev/tests/transparency/rig"
	"switchyard.dev/tests/transparency/suite"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/relay"
)

// fronts are two TLS servers before bare applications: previews, through a link, and nginx.
type fronts struct {
	dir         string
	credentials suite.Target
	config      *tls.Config
	// addresses are those of the servers.
	preview, nginx string
	agents         net.Listener
	stop           func()
	program        *program.Program
	shims          []net.Listener
}

const nginxFront = "127.0.0.1:8447"

// openFronts starts the servers for applications that run bare in a rig.
func (r *Run) openFronts(ctx context.Context, apps ...rig.App) (f *fronts, err error) {
	f = &fronts{stop: func() {}, credentials: suite.Target{Credential: previews.Key}, nginx: nginxFront}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if f.dir, err = os.MkdirTemp("/tmp", "fronts"); err != nil {
		return f, err
	}
	pair, err := selfsigned.New("*."+previews.Domain, net.IPv4(127, 0, 0, 1))
	if err != nil {
		return f, err
	}
	if err := pair.Write(f.dir); err != nil {
		return f, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pair.Cert)
	f.config = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
	if err := f.startPreviews(r.rig, pair, apps); err != nil {
		return f, err
	}
	return f, f.startNginx(ctx, r, apps)
}

// addressOf returns the address of a bare application.
func addressOf(its *rig.Rig, a rig.App) netip.AddrPort {
	return netip.MustParseAddrPort(its.Ways(a).Bare.Address)
}

// startPreviews starts a link server, an agent and previews.
func (f *fronts) startPreviews(its *rig.Rig, pair selfsigned.Pair, apps []rig.App) error {
	services, endpoints := previews.Services{}, map[string]string{}
	for _, a := range apps {
		host := a.Name + ".shop.svc"
		services[host], endpoints[a.Name] = addressOf(its, a).Addr(), fmt.Sprintf("http://%s:%d", host, a.Port)
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return err
	}
	cluster := registry.Cluster{Organisation: "acme", Name: "one"}
	tokens := &registry.MemoryTokens{}
	tokens.Set(map[[sha256.Size]byte]registry.Token{sha256.Sum256([]byte(cluster.Name)): {ID: "1", Cluster: cluster}})
	link, err := server.New(server.Config{TLS: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}, Registry: &registry.Memory{}, Tokens: tokens, Replica: "one"})
	if err != nil {
		return err
	}
	p, err := previews.New(previews.Config{Link: link, Cluster: cluster, Endpoints: endpoints, Dir: f.dir, Address: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	if f.agents, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	agent, err := previews.NewAgent(previews.AgentConfig{Address: f.agents.Addr().String(), Bundle: pair.Cert, Token: cluster.Name, Dir: f.dir, Services: services})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all errgroup.Group
	all.Go(func() error { return link.Serve(ctx, f.agents) })
	all.Go(func() error { return p.Run(ctx) })
	all.Go(func() error { agent.Run(ctx); return nil })
	f.preview, f.stop = p.Address, func() { cancel(); _ = all.Wait() } // what matters is in the results
	return wait.Until(ctx, time.Minute, "the agent is connected", func() error {
		if len(link.Agents()) == 0 {
			return server.ErrNoAgent
		}
		return nil
	})
}

// startNginx starts nginx as a TLS reverse proxy without buffers and with WebSockets.
func (f *fronts) startNginx(ctx context.Context, r *Run, apps []rig.App) error {
	text := fmt.Sprintf(`daemon off; master_process off; user root; pid %[1]s/pid; error_log stderr; events { worker_connections 4096; }
http {
	access_log off; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	client_max_body_size 0; proxy_http_version 1.1; proxy_buffering off; proxy_request_buffering off; proxy_read_timeout 1h; proxy_send_timeout 1h; server_names_hash_bucket_size 128;
	map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
	ssl_certificate %[1]s/%[2]s; ssl_certificate_key %[1]s/%[3]s; ssl_protocols TLSv1.3;
`, f.dir, trust.CertFile, trust.KeyFile)
	for _, a := range apps {
		text += fmt.Sprintf("	server { listen %s ssl http2; server_name %s; location / { proxy_pass http://%s; proxy_set_header Host $host; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade; } }\n",
			f.nginx, previews.Host(a.Name), addressOf(r.rig, a))
	}
	path := filepath.Join(f.dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(text+"}\n"), 0o600); err != nil {
		return err
	}
	var err error
	if f.program, err = program.Start(f.dir, "nginx", r.its.Debian("usr/sbin/nginx", "-e", "stderr", "-c", path), program.OnOneThread); err != nil {
		return err
	}
	return wait.Until(ctx, time.Minute, "nginx is up", func() error {
		c, err := net.DialTimeout("tcp", f.nginx, time.Second)
		if err != nil {
			log, _ := os.ReadFile(filepath.Join(f.dir, "nginx.log"))
			return fmt.Errorf("%w: %s", errors.Join(err, f.program.Running()), log)
		}
		return c.Close()
	})
}

// through returns the way to an application through a server: suites that know no TLS are given a listener that
// adds it.
func (f *fronts) through(server string, a rig.App) (suite.Target, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return suite.Target{}, err
	}
	f.shims = append(f.shims, l)
	to := f.credentials
	to.Address, to.Host = l.Addr().String(), previews.Host(a.Name)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go f.addTLS(conn, server, to.Host)
		}
	}()
	return to, nil
}

// preface is the beginning of a connection of HTTP/2.
const preface = "PRI"

// addTLS forwards a connection over TLS, with the protocol that the client begins to speak.
func (f *fronts) addTLS(conn net.Conn, server, host string) {
	first := make([]byte, len(preface))
	n, err := conn.Read(first)
	if err != nil {
		_ = conn.Close()
		return
	}
	config := f.config.Clone()
	config.ServerName, config.NextProtos = host, []string{"http/1.1"}
	if strings.HasPrefix(preface, string(first[:n])) {
		config.NextProtos = []string{"h2"}
	}
	far, err := tls.Dial("tcp", server, config)
	if err == nil {
		_, err = far.Write(first[:n])
	}
	if err != nil {
		_ = conn.Close()
		return
	}
	relay.Pipe(relay.Of(conn), relay.Of(far))
}

// Close ends the servers.
func (f *fronts) Close() error {
	for _, l := range f.shims {
		_ = l.Close()
	}
	f.stop()
	if f.program != nil {
		f.program.Kill()
	}
	return os.RemoveAll(f.dir)
}
