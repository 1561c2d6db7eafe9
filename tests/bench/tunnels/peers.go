package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"switchyard.dev/tests/bench/tunnels/lab"
)

// buildPeers returns the path of a program of the module beside this one, with the name of its folder.
func (s site) buildPeers(name string) (string, error) {
	path := filepath.Join(s.cache, "peers", name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	cmd := exec.Command("go", "build", "-C", s.source, "-trimpath", "-o", filepath.Dir(path)+"/", ".", "sigs.k8s.io/apiserver-network-proxy/cmd/server", "sigs.k8s.io/apiserver-network-proxy/cmd/agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOTOOLCHAIN=auto")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", name, err, out)
	}
	return path, nil
}

func openKonnectivity(p *programs, s site) error {
	server, err := s.buildPeers("server")
	if err != nil {
		return err
	}
	agent, err := s.buildPeers("agent")
	if err != nil {
		return err
	}
	_, failed := p.start(p.lab.Far, server, "--mode=http-connect", "--uds-name="+s.file("konnectivity"), "--server-port=0", "--agent-bind-address="+lab.FarAddress, "--agent-port=8132",
		"--cluster-cert="+s.file("cert.pem"), "--cluster-key="+s.file("key.pem"))
	_, err = p.start(p.lab.Near, agent, "--ca-cert="+s.file("cert.pem"), "--proxy-server-host="+lab.FarAddress, "--proxy-server-port=8132", "--sync-interval=100ms")
	return errors.Join(failed, err)
}

func openRemotedialer(p *programs, s site) error {
	peers, err := s.buildPeers("peers")
	if err != nil {
		return err
	}
	at := lab.FarAddress + ":8443"
	_, failed := p.start(p.lab.Far, peers, "-server", at, "-entrance", entrance(0), "-to", serviceAddress, "-cert", s.file("cert.pem"), "-key", s.file("key.pem"))
	time.Sleep(300 * time.Millisecond) // its client does not try again
	_, err = p.start(p.lab.Near, peers, "-client", at, "-cert", s.file("cert.pem"))
	return errors.Join(failed, err)
}

// connectBy is the prefix of an address that is a socket of konnectivity, at which clients request
// connections to the service.
const connectBy = "connect:"

// connectThrough requests a connection to the service by HTTP.
func connectThrough(socket string) (net.Conn, error) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	if _, err = fmt.Fprintf(c, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", serviceAddress); err == nil {
		var answer *http.Response // nothing follows it before the client has sent something
		if answer, err = http.ReadResponse(bufio.NewReader(c), nil); err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("konnectivity answers %s", answer.Status)
		}
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}
