package transparency

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"switchyard.dev/tests/transparency/rig"
	"switchyard.dev/tests/transparency/suites"
	"switchyard.dev/tests/transparency/wire"
	"switchyard.dev/tools/apps"
)

// largest is the most bytes of a body or a message that an application is made ready for.
const largest = 64 << 20

// all are the applications, made ready to be run.
type all struct {
	podinfo, httpbin, nginx, nginx2, nghttpd, interop, redis, echo, odd, plain rig.App
}

// applications returns them.
func applications(its apps.Apps) all {
	fixed := func(cmd func(place string) *exec.Cmd) func(string, string) (*exec.Cmd, error) {
		return func(place, _ string) (*exec.Cmd, error) { return cmd(place), nil }
	}
	return all{
		podinfo: rig.App{Name: "podinfo", Port: 9898, Command: fixed(func(place string) *exec.Cmd {
			return its.Go("podinfo", "--port", "9898", "--h2c", "--level", "error", "--http-server-timeout", "15m", "--ui-message", place)
		})},
		httpbin: rig.App{Name: "go-httpbin", Port: 8000, Command: fixed(func(string) *exec.Cmd {
			return its.Go("go-httpbin", "-port", "8000", "-log-level", "ERROR", "-max-body-size", fmt.Sprint(2*largest), "-max-duration", "15m")
		})},
		nginx:  nginx(its, "nginx", 8001, ""),
		nginx2: nginx(its, "nginx-h2", 8002, "http2"),
		nghttpd: rig.App{Name: "nghttpd", Port: 8003, Command: func(_, dir string) (*exec.Cmd, error) {
			return its.Debian("usr/sbin/nghttpd", "--no-tls", "--echo-upload", "-d", dir, "8003"), os.WriteFile(filepath.Join(dir, "index.html"), []byte("hello\n"), 0o600)
		}},
		interop: rig.App{Name: "grpc-interop", Port: 10000, Command: fixed(func(string) *exec.Cmd { return its.Go("server", "-port", "10000") })},
		redis: rig.App{Name: "redis", Port: 6379, Command: func(_, dir string) (*exec.Cmd, error) {
			return its.Debian("usr/bin/redis-server", "--port", "6379", "--protected-mode", "no", "--save", "", "--dir", dir), nil
		}},
		echo: rig.App{Name: "tcp-echo", Port: 8004, Serve: func(l net.Listener) { suites.ServeTCP(l) }},
		// For bytes: an application of odd answers, and Go's own server.
		odd:   rig.App{Name: "odd", Port: 8005, Serve: func(l net.Listener) { _ = wire.Serve(l) }},
		plain: rig.App{Name: "go-net-http", Port: 8006, Serve: func(l net.Listener) { _ = wire.Echo().Serve(l) }},
	}
}

// list returns all that are to be started.
func (a all) list() []rig.App {
	return []rig.App{a.podinfo, a.httpbin, a.nginx, a.nginx2, a.nghttpd, a.interop, a.redis, a.echo, a.odd, a.plain}
}

// nginx serves files and takes them, and has no setting but those without which it
// serves nothing here.
func nginx(its apps.Apps, name string, port int, listen string) rig.App {
	return rig.App{Name: name, Port: uint16(port), Command: func(_, dir string) (*exec.Cmd, error) {
		www := filepath.Join(dir, "www")
		if err := os.Mkdir(www, 0o755); err != nil {
			return nil, err
		}
		for file, size := range map[string]int{"index.html": 100, "small": 1000, "large": largest / 4} {
			if err := os.WriteFile(filepath.Join(www, file), suites.Noise(size), 0o600); err != nil {
				return nil, err
			}
		}
		config := filepath.Join(dir, "nginx.conf")
		text := fmt.Sprintf(`daemon off; master_process off; user root; pid %[1]s/pid; error_log stderr; events {}
http {
	access_log off; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi; client_max_body_size 0;
	server { listen %[2]d %[3]s; root %[1]s/www; }
}
`, dir, port, listen)
		return its.Debian("usr/sbin/nginx", "-e", "stderr", "-c", config), os.WriteFile(config, []byte(text), 0o600)
	}}
}
