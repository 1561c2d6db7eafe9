// Package web compares HTTP through a preview with HTTP through the link alone and through nginx as a TLS reverse proxy.
package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/link/previews"
	"switchyard.dev/tests/selfsigned"
)

// Endpoint is the endpoint of the preview.
const Endpoint = "web"

// Ways are the ways to the HTTP service.
type Ways struct {
	// Service is its address, and Host its name in the cluster.
	Service, Host string
	// Link, Previews and Nginx are the addresses of the three ways, which Dial connects to.
	Link, Previews, Nginx string
	Dial                  func(address string) (net.Conn, error)
	// Dir is for the certificate of previews and the files of nginx.
	Dir string
	// Rounds is how often each way is measured, in turn, and For how long, in each direction.
	Rounds int
	For    time.Duration
}

// Serve is the HTTP service: it answers with 64 bytes, sends all that it can on /down, and reads on /up.
func Serve(address string, ready func()) error {
	l, err := net.Listen("tcp4", address)
	if err != nil {
		return err
	}
	ready()
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // it serves this program alone
		switch r.URL.Path {
		case "/down":
			for buf := make([]byte, 64<<10); ; {
				if _, err := w.Write(buf); err != nil {
					return
				}
			}
		case "/up":
			_, _ = io.Copy(io.Discard, r.Body) // the client ends it
		default:
			_, _ = w.Write(make([]byte, 64)) // the client has closed its connection
		}
	}))
}

// Prepare creates the certificate of previews and the configuration of nginx, and returns the file of the latter.
func (w Ways) Prepare() (config string, err error) {
	pair, err := selfsigned.New("*." + previews.Domain)
	if err == nil {
		err = pair.Write(w.Dir)
	}
	text := fmt.Sprintf(`daemon off; user root; worker_processes auto; pid %[1]s/nginx.pid; error_log stderr; events { worker_connections 4096; }
http {
	access_log off; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	upstream web { server %[2]s; keepalive 64; }
	server {
		listen %[3]s ssl; ssl_protocols TLSv1.3; ssl_certificate %[1]s/%[4]s; ssl_certificate_key %[1]s/%[5]s;
		keepalive_requests 1000000; client_max_body_size 0; proxy_request_buffering off; proxy_max_temp_file_size 0;
		location / { proxy_pass http://web; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host; }
	}
}
`, w.Dir, w.Service, w.Nginx, trust.CertFile, trust.KeyFile)
	config = filepath.Join(w.Dir, "nginx.conf")
	return config, errors.Join(err, os.WriteFile(config, []byte(text), 0o600))
}

// way is one of them.
type way struct {
	name, url string
	client    *http.Client
}

// all returns them.
func (w Ways) all() ([]way, error) {
	authority, err := os.ReadFile(filepath.Join(w.Dir, trust.BundleFile))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	to := func(address string) *http.Client {
		return &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}, MaxIdleConnsPerHost: 64,
			DialContext: func(context.Context, string, string) (net.Conn, error) { return w.Dial(address) },
		}}
	}
	preview := "https://" + previews.Host(Endpoint)
	return []way{{"link", "http://" + w.Host, to(w.Link)}, {"preview", preview, to(w.Previews)}, {"nginx", preview, to(w.Nginx)}}, nil
}

// Compare measures the ways, and prints the figures of previews.
func (w Ways) Compare() error {
	ways, err := w.all()
	if err != nil {
		return err
	}
	all := map[string][]measured{}
	for range w.Rounds {
		for _, one := range ways {
			if err := one.await(); err != nil {
				return err
			}
			m, err := one.measure(w.For)
			if err != nil {
				return err
			}
			fmt.Printf("HTTP over %-8s p50 %6.3f ms, p99 %6.3f ms, down %7.1f MB/s, up %7.1f MB/s\n", one.name, m.p50, m.p99, m.down, m.up)
			all[one.name] = append(all[one.name], m)
		}
	}
	verdicts(all)
	return nil
}

// measured is what one way showed: ms of a request on a kept connection, and MB/s.
type measured struct{ p50, p99, down, up float64 }

// send sends a request.
func (w way) send(ctx context.Context, path string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, map[bool]string{true: http.MethodGet, false: http.MethodPost}[body == nil], w.url+path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Signadot-Api-Key", previews.Key)
	a, err := w.client.Do(r)
	if err == nil && a.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(a.Body)
		_ = a.Body.Close()
		err = fmt.Errorf("%s: %s %s", w.name, a.Status, text)
	}
	return a, err
}

// await returns once requests are served.
func (w way) await() (err error) {
	for began := time.Now(); time.Since(began) < 15*time.Second; time.Sleep(100 * time.Millisecond) {
		if _, err = w.request(); err == nil {
			return nil
		}
	}
	return err
}

// request returns how long a request took.
func (w way) request() (time.Duration, error) {
	began := time.Now()
	a, err := w.send(context.Background(), "/", nil)
	if err != nil {
		return 0, err
	}
	defer a.Body.Close()
	n, err := io.Copy(io.Discard, a.Body)
	if err == nil && n != 64 {
		err = fmt.Errorf("%s: %d bytes", w.name, n)
	}
	return time.Since(began), err
}

// measure measures requests on one connection, and a stream in each direction.
func (w way) measure(duration time.Duration) (m measured, err error) {
	defer w.client.CloseIdleConnections()
	var times []time.Duration
	for range 3000 {
		took, err := w.request()
		if err != nil {
			return m, err
		}
		times = append(times, took)
	}
	m.p50, m.p99 = figures.Millis(times, .5), figures.Millis(times, .99)
	ctx, cancel := context.WithTimeout(context.Background(), duration)
	defer cancel()
	a, err := w.send(ctx, "/down", nil)
	if err != nil {
		return m, err
	}
	n, _ := io.Copy(io.Discard, a.Body) // until the time is over
	_ = a.Body.Close()
	m.down = float64(n) / 1e6 / duration.Seconds()
	body := &source{until: time.Now().Add(duration)}
	began := time.Now()
	if a, err = w.send(context.Background(), "/up", body); err != nil {
		return m, err
	}
	m.up = float64(body.sent) / 1e6 / time.Since(began).Seconds()
	return m, a.Body.Close()
}

// source is a body that ends at a time.
type source struct {
	until time.Time
	sent  int64
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	if time.Now().After(s.until) {
		return 0, io.EOF
	}
	s.sent += int64(len(p))
	return len(p), nil
}

// verdicts prints the figures of previews.
func verdicts(all map[string][]measured) {
	of := func(way string, figure func(measured) float64) float64 {
		var values []float64
		for _, m := range all[way] {
			values = append(values, figure(m))
		}
		return figures.Median(values)
	}
	p50, p99 := func(m measured) float64 { return m.p50 }, func(m measured) float64 { return m.p99 }
	figures.AtMost(os.Stdout, "preview-added-to-link-p50", of("preview", p50)-of("link", p50), "ms", 1)
	figures.Print(os.Stdout, "preview-added-to-link-p99", of("preview", p99)-of("link", p99), "ms")
	figures.Print(os.Stdout, "preview-added-to-nginx-p50", of("preview", p50)-of("nginx", p50), "ms")
	for name, rate := range map[string]func(measured) float64{"down": func(m measured) float64 { return m.down }, "up": func(m measured) float64 { return m.up }} {
		figures.AtLeast(os.Stdout, "preview-"+name+"-of-link", of("preview", rate)/of("link", rate), "times", .8)
		figures.AtLeast(os.Stdout, "preview-"+name+"-of-nginx", of("preview", rate)/of("nginx", rate), "times", .5)
	}
}
