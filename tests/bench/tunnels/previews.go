package main

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
	"strconv"
	"time"

	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tests/bench/tunnels/lab"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/link/previews"
	"switchyard.dev/tests/selfsigned"
)

// The HTTP service is at webAddress. Its ways are the third entrance of the link, the preview of an endpoint and nginx.
const (
	webPort      = 9002
	webEntrance  = 2
	webEndpoint  = "web"
	previewsAt   = "127.0.0.1:8445"
	nginxAt      = "127.0.0.1:8446"
	nginxProgram = "/usr/sbin/nginx"
)

var webAddress = net.JoinHostPort(lab.NearAddress, strconv.Itoa(webPort))

// runWeb is the HTTP service: it answers with 64 bytes, sends all that it can on /down, and reads on /up.
func runWeb(address string) error {
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

// servePreviews serves previews with the certificate in a folder.
func servePreviews(link *server.Server, dir string) error {
	p, err := previews.New(previews.Config{
		Link: link, Cluster: linked, Dir: dir, Address: previewsAt, Endpoints: map[string]string{webEndpoint: fmt.Sprintf("http://%s:%d", linkHost, webPort)},
	})
	if err != nil {
		return err
	}
	return p.Run(context.Background())
}

// openNginx starts nginx as a reverse proxy with the certificate of previews.
func openNginx(p *programs, s site) error {
	if _, err := os.Stat(nginxProgram); err != nil {
		return errors.New("there is no nginx: apt-get install nginx-light")
	}
	config := fmt.Sprintf(`daemon off; user root; worker_processes auto; pid %[1]s/nginx.pid; error_log stderr; events { worker_connections 4096; }
http {
	access_log off; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	upstream web { server %[2]s; keepalive 64; }
	server {
		listen %[3]s ssl; ssl_protocols TLSv1.3; ssl_certificate %[1]s/previews/%[4]s; ssl_certificate_key %[1]s/previews/%[5]s;
		keepalive_requests 1000000; client_max_body_size 0; proxy_request_buffering off; proxy_max_temp_file_size 0;
		location / { proxy_pass http://web; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host; }
	}
}
`, s.folder, webAddress, nginxAt, trust.CertFile, trust.KeyFile)
	if err := s.write("nginx.conf", config); err != nil {
		return err
	}
	_, err := p.start(p.lab.Far, nginxProgram, "-e", "stderr", "-c", s.file("nginx.conf"))
	return err
}

// web is one way to the HTTP service.
type web struct {
	name, url string
	client    *http.Client
}

// webs are the ways: the link alone, a preview, and nginx.
func webs(l *lab.Lab, s site) ([]web, error) {
	authority, err := os.ReadFile(filepath.Join(s.file("previews"), trust.BundleFile))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	to := func(address string) *http.Client {
		return &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}, MaxIdleConnsPerHost: 64,
			DialContext: func(context.Context, string, string) (c net.Conn, err error) {
				err = lab.Inside(l.Far, func() (err error) { c, err = net.DialTimeout("tcp4", address, 10*time.Second); return err })
				return c, err
			},
		}}
	}
	preview := "https://" + previews.Host(webEndpoint)
	return []web{
		{"link", "http://" + linkHost, to(entrance(webEntrance))}, {"preview", preview, to(previewsAt)}, {"nginx", preview, to(nginxAt)},
	}, nil
}

// webMeasured is what one way showed: ms of a request on a kept connection, and MB/s.
type webMeasured struct{ p50, p99, down, up float64 }

// send sends a request.
func (w web) send(ctx context.Context, path string, body io.Reader) (*http.Response, error) {
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
func (w web) await() (err error) {
	for began := time.Now(); time.Since(began) < 15*time.Second; time.Sleep(100 * time.Millisecond) {
		if _, err = w.request(); err == nil {
			return nil
		}
	}
	return err
}

// request returns how long a request took.
func (w web) request() (time.Duration, error) {
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
func (w web) measure() (m webMeasured, err error) {
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
	ctx, cancel := context.WithTimeout(context.Background(), options.duration)
	defer cancel()
	a, err := w.send(ctx, "/down", nil)
	if err != nil {
		return m, err
	}
	n, _ := io.Copy(io.Discard, a.Body) // until the time is over
	_ = a.Body.Close()
	m.down = float64(n) / 1e6 / options.duration.Seconds()
	body := &source{until: time.Now().Add(options.duration)}
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

// comparePreviews compares previews with the link alone and with nginx, in turn.
func comparePreviews(s site) error {
	pair, err := selfsigned.New("*." + previews.Domain)
	if err != nil {
		return err
	}
	if err := pair.Write(s.file("previews")); err != nil {
		return err
	}
	defer os.RemoveAll(s.file("previews")) // link servers of other measurements have none
	l, err := lab.New(lab.Link{})
	if err != nil {
		return err
	}
	defer l.Close()
	p := &programs{lab: l}
	defer p.Close()
	if err := errors.Join(p.ourselves(l.Near, "-web", webAddress), p.ourselves(l.Near, "-service", directAddress), openLink(p, s), openNginx(p, s)); err != nil {
		return err
	}
	ways, err := webs(l, s)
	if err != nil {
		return err
	}
	all := map[string][]webMeasured{}
	for range options.rounds {
		for _, w := range ways {
			if err := w.await(); err != nil {
				return err
			}
			m, err := w.measure()
			if err != nil {
				return err
			}
			fmt.Printf("HTTP over %-8s p50 %6.3f ms, p99 %6.3f ms, down %7.1f MB/s, up %7.1f MB/s\n", w.name, m.p50, m.p99, m.down, m.up)
			all[w.name] = append(all[w.name], m)
		}
	}
	previewVerdicts(all)
	return nil
}

// previewVerdicts prints the figures of previews.
func previewVerdicts(all map[string][]webMeasured) {
	of := func(way string, figure func(webMeasured) float64) float64 {
		var values []float64
		for _, m := range all[way] {
			values = append(values, figure(m))
		}
		return figures.Median(values)
	}
	p50, p99 := func(m webMeasured) float64 { return m.p50 }, func(m webMeasured) float64 { return m.p99 }
	figures.AtMost(os.Stdout, "preview-added-to-link-p50", of("preview", p50)-of("link", p50), "ms", 1)
	figures.Print(os.Stdout, "preview-added-to-link-p99", of("preview", p99)-of("link", p99), "ms")
	figures.Print(os.Stdout, "preview-added-to-nginx-p50", of("preview", p50)-of("nginx", p50), "ms")
	for name, rate := range map[string]func(webMeasured) float64{"down": func(m webMeasured) float64 { return m.down }, "up": func(m webMeasured) float64 { return m.up }} {
		figures.AtLeast(os.Stdout, "preview-"+name+"-of-link", of("preview", rate)/of("link", rate), "times", .8)
		figures.AtLeast(os.Stdout, "preview-"+name+"-of-nginx", of("preview", rate)/of("nginx", rate), "times", .5)
	}
}
