package workflows

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"switchyard.dev/tests/container"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/sweep/wire"
)

// serverName is the name of the IO context server, of its account and its program.
const serverName = "io-context-server"

// ioServer is one process of the IO context server. It reaches the API server through a gate:
// when that is dead, the process is killed before it has its answer.
type ioServer struct {
	gate    *wire.Gate
	program *program.Program
	front   *http.Server
	begun   chan struct{}
}

// serve starts a server with these faults. dir is a directory for this server alone.
func (w *World) serve(dir string, f wire.Faults) (*ioServer, error) {
	s := &ioServer{gate: wire.NewGate(f, wire.NewLedger()), begun: make(chan struct{})}
	defer close(s.begun)
	port, err := s.stand(w)
	if err != nil {
		return nil, err
	}
	account, certificate := filepath.Join(dir, "account"), filepath.Join(dir, "tls")
	err = errors.Join(os.MkdirAll(account, 0o700), w.pair.Write(certificate),
		os.WriteFile(filepath.Join(account, "token"), []byte(w.account), 0o600),
		os.WriteFile(filepath.Join(account, "ca.crt"), w.pair.Cert, 0o600))
	if err != nil {
		return nil, errors.Join(err, s.front.Close())
	}
	in := container.Container{Root: w.images[imageInit].Root, Dir: dir, Binds: []container.Bind{{From: account, To: accountDir}, {From: certificate, To: tlsDir}}}
	s.program, _, err = in.Start(serverName, []string{"KUBERNETES_SERVICE_HOST=127.0.0.1", "KUBERNETES_SERVICE_PORT=" + port},
		"/"+serverName, "--tls-dir="+tlsDir, "--log-level=debug", fmt.Sprintf("--address=127.0.0.1:%d", w.port), "--metrics-address=127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, s.front.Close())
	}
	return s, nil
}

// stand listens as an API server does, for this process alone.
func (s *ioServer) stand(w *World) (port string, err error) {
	certificate, err := tls.X509KeyPair(w.pair.Cert, w.pair.Key)
	if err != nil {
		return "", err
	}
	target, err := url.Parse(w.api.Config.Host)
	if err != nil {
		return "", err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: s.gate.Wrap(w.plain),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			if s.dead() {
				s.kill()
			}
			panic(http.ErrAbortHandler) // The connection breaks, and nothing is answered.
		},
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13})
	if err != nil {
		return "", err
	}
	s.front = &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go func() { _ = s.front.Serve(l) }() // it ends when it is closed
	_, port, err = net.SplitHostPort(l.Addr().String())
	return port, err
}

func (s *ioServer) dead() bool {
	select {
	case <-s.gate.Dead():
		return true
	default:
		return false
	}
}

// kill ends the process as a lost node would.
func (s *ioServer) kill() {
	s.gate.Kill()
	<-s.begun
	s.program.Kill()
}

// stop ends it, and its way to the API server.
func (s *ioServer) stop() {
	s.kill()
	_ = s.front.Close() // it has no more clients
}

// serveOn begins a server whenever one has died, until ctx ends, and stops the last one. faults
// are those of the n-th, from 0.
func (w *World) serveOn(ctx context.Context, dir string, s *ioServer, faults func(n int) wire.Faults) {
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			s.stop()
			return
		case <-s.program.Ended():
		case <-s.gate.Dead():
		}
		s.stop()
		next, err := w.serve(filepath.Join(dir, fmt.Sprint(n)), faults(n))
		if err != nil {
			w.logger.Error("no IO context server takes over", "error", err)
			<-ctx.Done()
			return
		}
		s = next
	}
}
