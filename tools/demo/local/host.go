package local

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"switchyard.dev/tools/demo"
)

// The workstation's network namespace, and its link to the cluster's: both ends and addresses.
const (
	host        = "workstation"
	nearEnd     = "laptop0"
	farEnd      = "laptop1"
	nearAddress = "198.18.77.1"
	farAddress  = "198.18.77.2"
)

// developer is who works at the workstation: a service account in place of a user.
const developer = "dora"

// Workstation is a machine that is not in the cluster.
type Workstation struct {
	folder string // what belongs to it
}

// NewWorkstation makes the machine, which reaches the API server and nothing else, with the
// kubeconfig of the developer. The caller removes it, also after an error.
func NewWorkstation(ctx context.Context) (*Workstation, error) {
	folder, err := os.MkdirTemp("", "switchyard-workstation-")
	w := &Workstation{folder: folder}
	if err != nil {
		return w, err
	}
	server, err := demo.Kubectl(ctx, "", "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	if err != nil {
		return w, err
	}
	api, err := url.Parse(server)
	if err != nil {
		return w, fmt.Errorf("the kubeconfig's server: %w", err)
	}
	w.removeLink(ctx) // of a story that was cut off
	for _, command := range []string{
		"ip netns add " + host,
		"ip link add " + nearEnd + " type veth peer name " + farEnd,
		"ip link set " + farEnd + " netns " + host,
		"ip address add " + nearAddress + "/30 dev " + nearEnd,
		"ip link set " + nearEnd + " up",
		"ip -n " + host + " address add " + farAddress + "/30 dev " + farEnd,
		"ip -n " + host + " link set lo up",
		"ip -n " + host + " link set " + farEnd + " up",
		"ip -n " + host + " route add " + api.Hostname() + "/32 via " + nearAddress,
	} {
		if err := line(ctx, command); err != nil {
			return w, err
		}
	}
	// Its resolver is one that nobody answers: names of the cluster mean nothing there.
	if err := os.MkdirAll(filepath.Join("/etc/netns", host), 0o755); err != nil {
		return w, err
	}
	if err := put(filepath.Join("/etc/netns", host, "resolv.conf"), []byte("nameserver "+farAddress+"\n")); err != nil {
		return w, err
	}
	return w, w.logIn(ctx)
}

// line runs a command that is one line without quotes.
func line(ctx context.Context, text string) error {
	words := strings.Fields(text)
	if out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", text, err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (w *Workstation) removeLink(ctx context.Context) {
	_ = line(ctx, "ip link delete "+nearEnd) // There may be none.
	_ = line(ctx, "ip netns delete "+host)
}

// Remove takes the machine away, and the developer's account.
func (w *Workstation) Remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience) // The story's may have ended.
	defer cancel()
	w.removeLink(ctx)
	rights, err := manifests.ReadFile("developer.yaml")
	if err == nil {
		_, err = demo.Kubectl(ctx, string(rights), "delete", "--ignore-not-found", "--wait=false", "-f", "-")
	}
	return errors.Join(err, os.RemoveAll(filepath.Join("/etc/netns", host)), os.RemoveAll(w.folder))
}

// unplugged has the link cut, or there again.
func (w *Workstation) unplugged(ctx context.Context, cut bool) error {
	state := map[bool]string{true: "down", false: "up"}[cut]
	return line(ctx, "ip link set "+nearEnd+" "+state)
}

// kubeconfig is the developer's.
func (w *Workstation) kubeconfig() string { return filepath.Join(w.folder, "kubeconfig") }

// logIn makes the developer's account, with the rights of somebody who changes HotROD, and a
// kubeconfig with a token.
func (w *Workstation) logIn(ctx context.Context) error {
	rights, err := manifests.ReadFile("developer.yaml")
	if err != nil {
		return err
	}
	if _, err := demo.Kubectl(ctx, string(rights), "apply", "-f", "-"); err != nil {
		return err
	}
	token, err := demo.Kubectl(ctx, "", "create", "token", developer, "-n", "hotrod", "--duration=2h")
	if err != nil {
		return err
	}
	config, err := demo.Kubectl(ctx, "", "config", "view", "--minify", "--flatten", "-o", "json")
	if err != nil {
		return err
	}
	if err := put(w.kubeconfig(), []byte(config)); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"set-credentials", developer, "--token=" + strings.TrimSpace(token)},
		{"set-context", "--current", "--user=" + developer},
	} {
		if _, err := demo.Kubectl(ctx, "", append([]string{"config", "--kubeconfig=" + w.kubeconfig()}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// Command returns one that runs on the workstation, as the developer.
func (w *Workstation) Command(ctx context.Context, argv ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", host}, argv...)...)
	c.Env = append(os.Environ(), "KUBECONFIG="+w.kubeconfig(), "XDG_RUNTIME_DIR="+w.folder)
	c.Dir = w.folder
	return c
}

// put writes a file beside its place, and renames it.
func put(path string, text []byte) error {
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
