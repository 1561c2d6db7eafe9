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

// developer is the user of the first workstation: a service account in place of a user.
const developer = "dora"

// Workstation is a machine that is not in the cluster: a network namespace.
type Workstation struct {
	user   string
	folder string // its files
	// host is the network namespace, and near and far are the ends of its link to the cluster's.
	host                    string
	near, far               string
	nearAddress, farAddress string
}

// NewWorkstation makes the machine, which reaches the API server and nothing else, with the
// kubeconfig of the developer. The caller removes it, also after an error.
func NewWorkstation(ctx context.Context) (*Workstation, error) {
	return NewWorkstationOf(ctx, developer, 0)
}

// NewWorkstationOf is NewWorkstation with another user and number, from 0 to 63: each of the
// machines that exist at the same time has its own.
func NewWorkstationOf(ctx context.Context, user string, number int) (*Workstation, error) {
	folder, err := os.MkdirTemp("", "switchyard-workstation-")
	w := &Workstation{user: user, folder: folder, host: fmt.Sprint("workstation", number),
		near: fmt.Sprint("laptop", 2*number), far: fmt.Sprint("laptop", 2*number+1),
		nearAddress: fmt.Sprint("198.18.77.", 4*number+1), farAddress: fmt.Sprint("198.18.77.", 4*number+2)}
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
		"ip netns add " + w.host,
		"ip link add " + w.near + " type veth peer name " + w.far,
		"ip link set " + w.far + " netns " + w.host,
		"ip address add " + w.nearAddress + "/30 dev " + w.near,
		"ip link set " + w.near + " up",
		"ip -n " + w.host + " address add " + w.farAddress + "/30 dev " + w.far,
		"ip -n " + w.host + " link set lo up",
		"ip -n " + w.host + " link set " + w.far + " up",
		"ip -n " + w.host + " route add " + api.Hostname() + "/32 via " + w.nearAddress,
	} {
		if err := line(ctx, command); err != nil {
			return w, err
		}
	}
	// Its resolver is an unused address: names of the cluster do not resolve there.
	if err := os.MkdirAll(filepath.Join("/etc/netns", w.host), 0o755); err != nil {
		return w, err
	}
	if err := put(filepath.Join("/etc/netns", w.host, "resolv.conf"), []byte("nameserver "+w.farAddress+"\n")); err != nil {
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
	_ = line(ctx, "ip link delete "+w.near) // There may be none.
	_ = line(ctx, "ip netns delete "+w.host)
}

// Remove takes the machine away, and the developer's account.
func (w *Workstation) Remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience) // The story's may have ended.
	defer cancel()
	w.removeLink(ctx)
	rights, err := w.rights()
	if err == nil {
		_, err = demo.Kubectl(ctx, rights, "delete", "--ignore-not-found", "--wait=false", "-f", "-")
	}
	return errors.Join(err, os.RemoveAll(filepath.Join("/etc/netns", w.host)), os.RemoveAll(w.folder))
}

// unplugged has the link cut, or there again.
func (w *Workstation) unplugged(ctx context.Context, cut bool) error {
	state := map[bool]string{true: "down", false: "up"}[cut]
	return line(ctx, "ip link set "+w.near+" "+state)
}

// kubeconfig is the developer's.
func (w *Workstation) kubeconfig() string { return filepath.Join(w.folder, "kubeconfig") }

// rights returns the developer's account with its rights.
func (w *Workstation) rights() (string, error) {
	text, err := manifests.ReadFile("developer.yaml")
	return strings.ReplaceAll(string(text), developer, w.user), err
}

// logIn creates the developer's account, with the permissions of a developer of HotROD, and a
// kubeconfig with a token.
func (w *Workstation) logIn(ctx context.Context) error {
	rights, err := w.rights()
	if err != nil {
		return err
	}
	if _, err := demo.Kubectl(ctx, rights, "apply", "-f", "-"); err != nil {
		return err
	}
	token, err := demo.Kubectl(ctx, "", "create", "token", w.user, "-n", "hotrod", "--duration=2h")
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
		{"set-credentials", w.user, "--token=" + strings.TrimSpace(token)},
		{"set-context", "--current", "--user=" + w.user},
	} {
		if _, err := demo.Kubectl(ctx, "", append([]string{"config", "--kubeconfig=" + w.kubeconfig()}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// Command returns one that runs on the workstation, as the developer.
func (w *Workstation) Command(ctx context.Context, argv ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", w.host}, argv...)...)
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
