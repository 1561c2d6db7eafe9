package netns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
)

// Device is the name of the node's network device. It is a bridge without
// ports, since not every kernel has the dummy driver.
const Device = "node0"

// Setup configures the namespace's loopback, the node's device with the address, and a default
// route. The route has no working gateway: the kernel needs it to pass packets for a Service to the
// rules that rewrite them. Setup changes nothing that is already configured.
func Setup(ctx context.Context, path string, address netip.Prefix, gateway netip.Addr) error {
	return Do(path, func() error {
		script := []string{"link set lo up"}
		if _, err := net.InterfaceByName(Device); err != nil {
			script = append(script, "link add "+Device+" type bridge")
		}
		script = append(script,
			"addr replace "+address.String()+" dev "+Device,
			"link set "+Device+" up",
			"route replace default via "+gateway.String()+" dev "+Device,
		)
		cmd := exec.CommandContext(ctx, "ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(strings.Join(script, "\n") + "\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("setting up the node's network device: %w: %s", err, strings.TrimSpace(string(out)))
		}
		for _, setting := range []string{"net/ipv4/ip_forward", "net/bridge/bridge-nf-call-iptables"} {
			if err := os.WriteFile("/proc/sys/"+setting, []byte("1"), 0o644); err != nil {
				return fmt.Errorf("switching on %s inside the namespace: %w", setting, err)
			}
		}
		return nil
	})
}
