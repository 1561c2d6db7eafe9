package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// site is what the tunnels need of the machine: keys, certificates, programs.
type site struct {
	folder, cache string
}

func (s site) file(name string) string { return filepath.Join(s.folder, name) }

func (s site) write(name, content string) error {
	return os.WriteFile(s.file(name), []byte(content), 0o600)
}

// tunnels are the tunnels to compare, by name. Each forwards an entrance to the service.
var tunnels = []struct {
	name string
	open func(*programs, site) error
}{
	{"carrier", openCarrier},
	{"ssh", openSSH},
	{"chisel", openChisel},
	{"frp", openFRP},
}

func openCarrier(p *programs, s site) error { return openCarriers(p, s, 1) }

func openCarriers(p *programs, s site, sessions int) error {
	at, n := farAddress+":7777", strconv.Itoa(sessions)
	return errors.Join(
		p.ourselves(p.lab.far, "-proxy", at, "-sessions", n, "-cert", s.file("cert.pem"), "-key", s.file("key.pem")),
		p.ourselves(p.lab.near, "-workstation", at, "-cert", s.file("cert.pem"), "-sessions", n),
	)
}

func openSSH(p *programs, s site) error {
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
		farAddress, s.file("host"), s.file("authorized"))
	if err := errors.Join(s.write("authorized", string(public)), s.write("sshd_config", config), os.MkdirAll("/run/sshd", 0o755)); err != nil {
		return err
	}
	if _, err := p.start(p.lab.far, "/usr/sbin/sshd", "-D", "-e", "-f", s.file("sshd_config")); err != nil {
		return err
	}
	_, err = p.start(p.lab.near, "ssh", "-N", "-F", "none", "-i", s.file("user"), "-p", "2222",
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectionAttempts=50", "-o", "ExitOnForwardFailure=yes",
		"-R", entrance(0)+":"+serviceAddress, "root@"+farAddress)
	return err
}

func openChisel(p *programs, s site) error {
	chisel, err := build(s.cache, "chisel")
	if err != nil {
		return err
	}
	_, failed := p.start(p.lab.far, chisel, "server", "--reverse", "--host", farAddress, "--port", "8080")
	_, err = p.start(p.lab.near, chisel, "client", "--max-retry-interval", "100ms", farAddress+":8080", "R:"+entrance(0)+":"+serviceAddress)
	return errors.Join(failed, err)
}

func openFRP(p *programs, s site) error {
	server, err := build(s.cache, "frps")
	if err != nil {
		return err
	}
	client, err := build(s.cache, "frpc")
	if err != nil {
		return err
	}
	if err := errors.Join(
		s.write("frps.toml", fmt.Sprintf("bindAddr = %q\nbindPort = 7000\nproxyBindAddr = \"127.0.0.1\"\n", farAddress)),
		s.write("frpc.toml", fmt.Sprintf("serverAddr = %q\nserverPort = 7000\nloginFailExit = false\n[[proxies]]\nname = \"service\"\ntype = \"tcp\"\nlocalIP = \"127.0.0.1\"\nlocalPort = 9000\nremotePort = 9100\n", farAddress)),
	); err != nil {
		return err
	}
	_, failed := p.start(p.lab.far, server, "-c", s.file("frps.toml"))
	_, err = p.start(p.lab.near, client, "-c", s.file("frpc.toml"))
	return errors.Join(failed, err)
}
