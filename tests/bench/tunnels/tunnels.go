package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"switchyard.dev/tests/bench/tunnels/lab"
	"switchyard.dev/tests/bench/tunnels/modules"
)

// site is what the tunnels need of the machine: keys, certificates, programs.
type site struct {
	folder, cache string
	source        string // of peers
}

func (s site) file(name string) string { return filepath.Join(s.folder, name) }

func (s site) write(name, content string) error {
	return os.WriteFile(s.file(name), []byte(content), 0o600)
}

// tunnel forwards connections to the service.
type tunnel struct {
	name string
	open func(*programs, site) error
	part part
	// address returns where its clients connect to. Default: the first entrance.
	address func(site) string
}

func direct(site) string { return directAddress }

var tcp = tunnel{name: "tcp", open: func(*programs, site) error { return nil }, address: direct}

// tunnels are the tunnels of workstations to compare, linked the ways to a cluster that an agent opens.
// The first is raw TCP, without a tunnel.
var (
	tunnels = []tunnel{
		tcp,
		{name: "carrier", open: openCarrier},
		{name: "ssh", open: openSSH, part: streamsOnly},
		{name: "chisel", open: openChisel, part: streamsOnly},
		{name: "frp", open: openFRP, part: streamsOnly},
	}
	links = []tunnel{
		{name: "tcp", open: tcp.open, part: withRequests, address: direct},
		{name: "tls", open: openPlain, part: withRequests},
		{name: "link", open: openLink, part: withRequests},
		{name: "konnectivity", open: openKonnectivity, part: withRequests, address: func(s site) string { return connectBy + s.file("konnectivity") }},
		{name: "remotedialer", open: openRemotedialer, part: withRequests},
		{name: "ssh", open: openSSH, part: streamsOnly},
		{name: "chisel", open: openChisel, part: streamsOnly},
		{name: "frp", open: openFRP, part: streamsOnly},
	}
)

func openCarrier(p *programs, s site) error { return openCarriers(p, s, 1) }

func openCarriers(p *programs, s site, sessions int) error {
	at, n := lab.FarAddress+":7777", strconv.Itoa(sessions)
	return errors.Join(
		p.ourselves(p.lab.Far, "-proxy", at, "-sessions", n, "-cert", s.file("cert.pem"), "-key", s.file("key.pem")),
		p.ourselves(p.lab.Near, "-workstation", at, "-cert", s.file("cert.pem"), "-sessions", n),
	)
}

func openSSH(p *programs, s site) error {
	if _, err := os.Stat("/usr/sbin/sshd"); err != nil {
		return errors.New("there is no sshd: apt-get install openssh-server")
	}
	for _, key := range []string{"host", "user"} {
		if _, err := os.Stat(s.file(key)); err == nil {
			continue
		}
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", s.file(key)).CombinedOutput(); err != nil {
			return fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
	}
	public, err := os.ReadFile(s.file("user.pub"))
	if err != nil {
		return err
	}
	config := fmt.Sprintf("ListenAddress %s:2222\nHostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\nAllowTcpForwarding yes\nMaxSessions 10\n",
		lab.FarAddress, s.file("host"), s.file("authorized"))
	if err := errors.Join(s.write("authorized", string(public)), s.write("sshd_config", config), os.MkdirAll("/run/sshd", 0o755)); err != nil {
		return err
	}
	if _, err := p.start(p.lab.Far, "/usr/sbin/sshd", "-D", "-e", "-f", s.file("sshd_config")); err != nil {
		return err
	}
	_, err = p.start(p.lab.Near, "ssh", "-N", "-F", "none", "-i", s.file("user"), "-p", "2222",
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectionAttempts=50", "-o", "ExitOnForwardFailure=yes",
		"-R", entrance(0)+":"+serviceAddress, "root@"+lab.FarAddress)
	return err
}

func openChisel(p *programs, s site) error {
	chisel, err := modules.Build(s.cache, "chisel")
	if err != nil {
		return err
	}
	_, failed := p.start(p.lab.Far, chisel, "server", "--reverse", "--host", lab.FarAddress, "--port", "8080")
	_, err = p.start(p.lab.Near, chisel, "client", "--max-retry-interval", "100ms", lab.FarAddress+":8080", "R:"+entrance(0)+":"+serviceAddress)
	return errors.Join(failed, err)
}

func openFRP(p *programs, s site) error {
	server, err := modules.Build(s.cache, "frps")
	if err != nil {
		return err
	}
	client, err := modules.Build(s.cache, "frpc")
	if err != nil {
		return err
	}
	if err := errors.Join(
		s.write("frps.toml", fmt.Sprintf("bindAddr = %q\nbindPort = 7000\nproxyBindAddr = \"127.0.0.1\"\n", lab.FarAddress)),
		s.write("frpc.toml", fmt.Sprintf("serverAddr = %q\nserverPort = 7000\nloginFailExit = false\n[[proxies]]\nname = \"service\"\ntype = \"tcp\"\nlocalIP = \"127.0.0.1\"\nlocalPort = 9000\nremotePort = 9100\n", lab.FarAddress)),
	); err != nil {
		return err
	}
	_, failed := p.start(p.lab.Far, server, "-c", s.file("frps.toml"))
	_, err = p.start(p.lab.Near, client, "-c", s.file("frpc.toml"))
	return errors.Join(failed, err)
}
