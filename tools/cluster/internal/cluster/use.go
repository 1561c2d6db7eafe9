package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/tools/cluster/internal/cleanup"
	"switchyard.dev/tools/cluster/internal/kube"
	"switchyard.dev/tools/cluster/internal/netns"
	"switchyard.dev/tools/cluster/internal/node"
	"switchyard.dev/tools/image/pack"
)

// Exec replaces this process by a command in the node's network. The command
// finds kubectl, helm and the other programs first in its PATH, the cluster in
// KUBECONFIG, a cache for kubectl that no other cluster uses in KUBECACHEDIR, and
// the cluster's names in its /etc/resolv.conf.
func (c Cluster) Exec(argv []string) error {
	if len(argv) == 0 {
		return errors.New("no command to run: use `cluster exec -- COMMAND ARGUMENTS`")
	}
	if _, err := c.running(); err != nil {
		return err
	}
	set := map[string]string{
		"PATH":         c.Node.Bin() + string(os.PathListSeparator) + os.Getenv("PATH"),
		"KUBECONFIG":   c.Node.Kubeconfig(),
		"KUBECACHEDIR": c.Node.KubectlCache(),
	}
	maps.Copy(set, prompt(argv, c.Node.Name, os.Getenv("PROMPT_COMMAND")))
	for key, value := range set {
		if err := os.Setenv(key, value); err != nil {
			return fmt.Errorf("setting %s: %w", key, err)
		}
	}
	return netns.Exec(c.Node.NetNS(), c.Node.Dir("resolv.conf"), argv, os.Environ())
}

// prompt returns the variables with which the prompt of an interactive shell names the node. before is the
// PROMPT_COMMAND of the caller. Other commands get none.
func prompt(argv []string, name, before string) map[string]string {
	if len(argv) != 1 || !slices.Contains([]string{"bash", "sh", "dash"}, filepath.Base(argv[0])) {
		return nil
	}
	mark := "(cluster " + name + ") "
	// The files that bash reads at its start replace PS1, but not PROMPT_COMMAND, which it runs before each prompt.
	command := fmt.Sprintf("case $PS1 in '%[1]s'*) ;; *) PS1='%[1]s'$PS1 ;; esac", mark)
	if before != "" {
		command = before + "\n" + command // it can end with a semicolon
	}
	return map[string]string{"PROMPT_COMMAND": command, "PS1": mark + "# "}
}

// Load puts images, given as files that `docker save` would write, into the
// node. Loading the same file again changes nothing.
func (c Cluster) Load(ctx context.Context, files []string) error {
	if len(files) == 0 {
		return errors.New("no image to load: use `cluster load IMAGE.tar...`")
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			return fmt.Errorf("no image file %s: give a tar file as `docker save` writes it", file)
		}
	}
	if _, err := c.running(); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	for _, file := range files {
		group.Go(func() error { return c.load(ctx, file) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "loaded into the node: %s\n", strings.Join(files, " "))
	return nil
}

func (c Cluster) load(ctx context.Context, file string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(c.Node.Bin(), "ctr"),
		"--address", c.Node.Containerd(), "--namespace", "k8s.io", "images", "import", file)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("loading %s: %w: %s", file, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// loadPause packs and loads the image that every pod needs, unless the node has it.
func (c Cluster) loadPause(ctx context.Context) error {
	tar := c.Node.Dir("pause.tar")
	if _, err := os.Stat(tar); err == nil {
		return nil
	}
	image, err := pack.Image(pack.Spec{
		Files:      []pack.File{{Host: filepath.Join(c.Node.Bin(), "pause"), Path: "/pause"}},
		Entrypoint: []string{"/pause"}, User: "65535:65535", Architecture: runtime.GOARCH,
	})
	if err == nil {
		err = pack.Write(tar+".new", node.PauseImage, image)
	}
	if err != nil {
		return fmt.Errorf("packing the pause image: %w", err)
	}
	if err := c.load(ctx, tar+".new"); err != nil {
		return err
	}
	if err := os.Rename(tar+".new", tar); err != nil {
		return fmt.Errorf("keeping the pause image: %w", err)
	}
	return nil
}

// reuseVolumes empties and releases the local volumes of deleted claims.
func (c Cluster) reuseVolumes(ctx context.Context) error {
	client, err := kube.Connect(c.Node)
	if err != nil {
		return err
	}
	released, err := client.Released(ctx)
	if err != nil {
		return fmt.Errorf("looking for volumes to reuse: %w", err)
	}
	for _, name := range released {
		dir := kube.VolumeDir(c.Node, name)
		if err := cleanup.RemoveAll(dir); err != nil {
			return err
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("emptying the volume %s: %w", name, err)
		}
		if err := client.Reuse(ctx, name); err != nil {
			return fmt.Errorf("freeing the volume %s: %w", name, err)
		}
	}
	return nil
}
