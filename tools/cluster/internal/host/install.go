package host

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Install installs Debian packages, quietly. It changes nothing when the list
// is empty. The list of available packages is fetched first, since a fresh
// machine image has none.
func Install(ctx context.Context, packages []string) error {
	if len(packages) == 0 {
		return nil
	}
	if err := apt(ctx, "update", "-qq"); err != nil {
		return err
	}
	return apt(ctx, append([]string{"install", "-y", "-qq", "--no-install-recommends"}, packages...)...)
}

// Prepare loads the kernel modules that Look found to be loadable. A kernel
// with everything built in has nothing to load.
func Prepare(ctx context.Context) error {
	modules := map[string]string{
		"overlay":      "",
		"br_netfilter": "/proc/sys/net/bridge/bridge-nf-call-iptables",
	}
	for name, sign := range modules {
		if (sign == "" && kernelHas("/proc/filesystems", name)) || (sign != "" && exists(sign)) {
			continue
		}
		if out, err := exec.CommandContext(ctx, "modprobe", name).CombinedOutput(); err != nil {
			return fmt.Errorf("loading the kernel module %s: %w: %s", name, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	tail := strings.Join(lines[max(0, len(lines)-5):], "\n")
	return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, tail)
}
