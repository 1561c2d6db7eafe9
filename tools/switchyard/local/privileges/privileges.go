// Package privileges contains the flags of connect --privileged, its checks for doctor, and its
// messages.
package privileges

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"switchyard.dev/protos/problems"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/clusteraccess"
	"switchyard.dev/tunnels/workstation/redirector"
)

// Privileges are what connect does with them: names and addresses of the cluster are reached as if
// this machine were in it.
type Privileges struct {
	// Use reports whether they are to be used.
	Use    bool
	ranges []string
	// pf reports whether rules may be loaded into pf, on macOS.
	pf bool
}

// Flags adds the flags of Privileges.
func (v *Privileges) Flags(f *pflag.FlagSet) {
	f.BoolVar(&v.Use, "privileged", false, "reach names and addresses of the cluster as if this machine were in it (needs CAP_NET_ADMIN; Linux only)")
	f.StringArrayVar(&v.ranges, "range", nil, "with --privileged, a further range of addresses to forward into the cluster, such as that of its pods, `CIDR`; repeatable")
	f.BoolVar(&v.pf, "experimental-pf", false, "with --privileged on macOS, load rules into pf (never tested on a Mac)")
	_ = f.MarkHidden("experimental-pf") // It fails for a flag that does not exist.
}

// Begin starts routing into the cluster with privileges, over a connection through host; nil
// without --privileged.
func (v *Privileges) Begin(ctx context.Context, host string, w *workstation.Workstation) (*clusteraccess.Access, error) {
	if !v.Use {
		if len(v.ranges) > 0 {
			return nil, exit.Usage.Errorf("--range is for --privileged: set both")
		}
		return nil, nil
	}
	if err := v.supported(runtime.GOOS); err != nil {
		return nil, err
	}
	uid, err := caller(os.Getuid(), os.Getenv("SUDO_UID"))
	if err != nil {
		return nil, err
	}
	cfg := clusteraccess.Config{Open: w.Open, Tell: w.Reaches, UID: uid}
	for _, text := range v.ranges {
		one, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, exit.Usage.Errorf("--range %s is no range of addresses, such as 10.244.0.0/16", text)
		}
		cfg.Ranges = append(cfg.Ranges, one.Masked())
	}
	if cfg.Except, err = addresses(ctx, host); err != nil {
		return nil, exit.Unavailable.Errorf("the address of the connection into the cluster is not known: %w", err)
	}
	got, err := clusteraccess.Begin(cfg)
	if err != nil {
		return nil, exit.Unavailable.Errorf("no privileges: %w\nconnect works without --privileged too", err)
	}
	return got, nil
}

// supported returns nil where --privileged is tested, and on macOS with --experimental-pf.
func (v *Privileges) supported(system string) error {
	if system == "darwin" && !v.pf {
		return exit.Usage.Errorf("--privileged is tested on Linux only: use the proxies of connect, or add --experimental-pf, which loads rules into pf as root and has not run on a Mac")
	}
	return nil
}

// caller returns the user of the redirected connections: the one of the process, or, where root
// runs it by sudo, the one that called sudo. Only root is believed about that.
func caller(uid int, sudo string) (uint32, error) {
	if uid != 0 || sudo == "" {
		return uint32(uid), nil
	}
	of, err := strconv.ParseUint(sudo, 10, 32)
	if err != nil {
		return 0, exit.Usage.Errorf("SUDO_UID is %q, which is no UID: unset it, or set it to the UID of the user that connects", sudo)
	}
	return uint32(of), nil
}

// addresses returns the addresses of a host that are not local, which are excluded so that the
// connection is not routed through itself.
func addresses(ctx context.Context, host string) (out []netip.Prefix, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for _, a := range all {
		if a = a.Unmap().WithZone(""); !a.IsLoopback() {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return out, err
}

// MayLead returns a *problems.Problem if the kernel cannot redirect connections, or names are not resolved
// through them.
func MayLead() error {
	t, err := redirector.Open("switchyard_doctor")
	if err != nil {
		switch runtime.GOOS {
		case "linux":
			return &problems.Problem{Message: err.Error(), Fix: "connect by sudo, or copy the program to a file that root and one group can run (mode 0750), and sudo setcap cap_net_admin+ep FILE"}
		case "darwin":
			return &problems.Problem{Message: err.Error(), Fix: "use the proxies of connect; connect --privileged --experimental-pf, as root, has not run on a Mac"}
		}
		return &problems.Problem{Message: err.Error(), Fix: "connect without --privileged, and use its proxies"}
	}
	_ = t.Close()
	file, err := os.Open("/etc/nsswitch.conf")
	if err != nil {
		return nil // As on machines without that C library.
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0] != "hosts:" {
			continue
		}
		own, usual := slices.Index(words, "resolve"), slices.Index(words, "dns")
		if own >= 0 && (usual < 0 || own < usual) {
			return &problems.Problem{Message: "programs ask systemd-resolved for names, without a query that can be redirected", Fix: "put dns in front of resolve in the line hosts of /etc/nsswitch.conf"}
		}
	}
	return nil
}

// Lines describes how the machine reaches the cluster as if it were inside it.
func Lines(i *workstation.Inside) (out []string) {
	if i == nil {
		return nil
	}
	switch {
	case !i.Leads:
		out = append(out, "names and addresses of the cluster are not redirected yet: tunnel-api has not reported them")
	case len(i.Ranges) > 0:
		out = append(out, fmt.Sprintf("names of the cluster, addresses of its Services, and %s are reached from all programs of user %d", strings.Join(i.Ranges, ", "), i.UID))
	default:
		out = append(out, fmt.Sprintf("names of the cluster and addresses of its Services are reached from all programs of user %d", i.UID))
	}
	if len(i.PublicNamespaces) > 0 {
		out = append(out, "use NAME.NAMESPACE.svc for Services of these namespaces, since NAME.NAMESPACE could be a public site: "+strings.Join(i.PublicNamespaces, ", "))
	}
	if len(i.Resolvers) > 0 {
		out = append(out, "other names are asked of "+strings.Join(i.Resolvers, ", "))
	}
	if i.Trouble != "" {
		out = append(out, "not all is as it should be: "+i.Trouble)
	}
	return out
}
