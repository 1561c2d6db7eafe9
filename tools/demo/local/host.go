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

// Workstation is a machine of a developer. It reaches the API server of the cluster alone.
type Workstation struct {
	*Machine
	user   string
	folder string // its files
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
	w := &Workstation{Machine: NewMachine("workstation", number), user: user, folder: folder}
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
	if err := w.Add(ctx, api.Hostname()+"/32"); err != nil {
		return w, err
	}
	// Its resolver is an unused address: names of the cluster do not resolve there.
	if err := os.MkdirAll(filepath.Join("/etc/netns", w.Name), 0o755); err != nil {
		return w, err
	}
	if err := put(filepath.Join("/etc/netns", w.Name, "resolv.conf"), []byte("nameserver "+w.Address+"\n")); err != nil {
		return w, err
	}
	return w, w.logIn(ctx)
}

// Remove takes the machine away, and the developer's account.
func (w *Workstation) Remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience) // The story's may have ended.
	defer cancel()
	w.Machine.Remove(ctx)
	rights, err := w.rights()
	if err == nil {
		_, err = demo.Kubectl(ctx, rights, "delete", "--ignore-not-found", "--wait=false", "-f", "-")
	}
	return errors.Join(err, os.RemoveAll(filepath.Join("/etc/netns", w.Name)), os.RemoveAll(w.folder))
}

// File returns the path of a file of the developer.
func (w *Workstation) File(name string) string { return filepath.Join(w.folder, name) }

// kubeconfig is the developer's.
func (w *Workstation) kubeconfig() string { return w.File("kubeconfig") }

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
	c := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", w.Name}, argv...)...)
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
