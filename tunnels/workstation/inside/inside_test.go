package inside

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/names"
)

// Pods come and go for as long as a workstation is connected: those that were asked for last are led.
func TestTheNewestAddressesAreLed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("nameserver 192.0.2.53\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	system, err := names.NewSystem(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	here := &ports{tcp: []net.Listener{l}}
	i := &Inside{cfg: Config{Tell: func(workstation.Inside) {}}, names: names.NewTable("cluster.local"), system: system, tcp: here, dns: here, learned: map[netip.Addr]bool{}}
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
		t.Errorf("%d are led: the oldest %t, the second %t, the newest %t", len(led), led[pod(0)], led[pod(1)], led[pod(maxLearned)])
	}
}
