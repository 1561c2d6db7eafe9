package clusteraccess

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/names"
)

// resolver is a system with a resolver that does not exist.
func resolver(t *testing.T) *names.System {
	t.Helper()
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("nameserver 192.0.2.53\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	system, err := names.NewSystem(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return system
}

// A machine that redirects queries to a closed port resolves no names.
func TestAFailedServerStopsRedirection(t *testing.T) {
	for what, part := range map[string]func(*Access) *ports{
		"DNS queries": func(i *Access) *ports { return i.dns },
		"connections": func(i *Access) *ports { return i.tcp },
	} {
		t.Run(what, func(t *testing.T) {
			open := func(context.Context, string, uint16) (net.Conn, error) { return nil, errors.New("nothing is open") }
			i := &Access{cfg: Config{Open: open, Log: slog.New(slog.DiscardHandler), Tell: func(workstation.Inside) {}},
				names: names.NewTable("cluster.local"), system: resolver(t), learned: map[netip.Addr]bool{}}
			var err error
			if i.server, err = names.New(names.Config{Table: i.names, System: i.system, Open: open, Learned: i.learn}); err != nil {
				t.Fatal(err)
			}
			if i.tcp, err = listen(false); err != nil {
				t.Fatal(err)
			}
			if i.dns, err = listen(true); err != nil {
				t.Fatal(err)
			}
			defer i.Close()
			conn, err := grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ended := make(chan error)
			go func() { ended <- i.Run(t.Context(), tunnelv1.NewTunnelAPIClient(conn)) }()
			other := map[bool]*ports{true: i.dns, false: i.tcp}[part(i) == i.tcp]
			part(i).close()
			if err := <-ended; err == nil || !strings.HasPrefix(err.Error(), what) {
				t.Errorf("it ended with %v", err)
			}
			if c, err := net.Dial("tcp", other.String()); err == nil {
				_ = c.Close()
				t.Error("the port of what does not work alone is still open")
			}
		})
	}
}

// Pods come and go while a workstation is connected: the addresses queried last are redirected.
func TestTheNewestAddressesAreRedirected(t *testing.T) {
	system := resolver(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	here := &ports{tcp: []net.Listener{l}}
	i := &Access{cfg: Config{Tell: func(workstation.Inside) {}}, names: names.NewTable("cluster.local"), system: system, tcp: here, dns: here, learned: map[netip.Addr]bool{}}
	pod := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 201, byte(n >> 8), byte(n)}) }
	var all []netip.Addr
	for n := range maxLearned {
		all = append(all, pod(n))
	}
	i.learn(all)
	i.learn([]netip.Addr{pod(maxLearned), pod(1), netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("127.0.0.1")})
	led := map[netip.Addr]bool{}
	for _, a := range i.rules().Addresses {
		led[a] = true
	}
	if len(led) != maxLearned || led[pod(0)] || !led[pod(1)] || !led[pod(maxLearned)] {
		t.Errorf("%d are redirected: the oldest %t, the second %t, the newest %t", len(led), led[pod(0)], led[pod(1)], led[pod(maxLearned)])
	}
}
