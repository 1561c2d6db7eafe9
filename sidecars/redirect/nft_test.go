package redirect

import (
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"switchyard.dev/sidecars/redirect/spec"
)

func TestAKernelThatRefusesOneRuleKeepsTheOldOnes(t *testing.T) {
	p := newPair(t)
	cfg := Config{NetNS: int(p.pod)}
	p.apply(t, spec.Spec{Ports: []uint16{8080}, To: 15006, Mode: spec.ModeNFT})
	before := everything(t, p.pod)
	broken := append(rules(spec.Spec{Ports: []uint16{9090}, To: 15006}),
		[]expr.Any{&expr.Lookup{SourceRegister: 1, SetName: "no-such-set"}})
	if err := cfg.write(broken, []nftables.TableFamily{nftables.TableFamilyINet}); err == nil {
		t.Fatal("the kernel took a rule with a set that does not exist")
	}
	if diff := cmp.Diff(before, everything(t, p.pod)); diff != "" {
		t.Error(diff)
	}
}

func TestTheTablesOfEachFamilyServeWhereInetCannot(t *testing.T) {
	p := newPair(t)
	p.listen(t, 8080)
	p.listen(t, 15006)
	cfg := Config{NetNS: int(p.pod)}
	s := spec.Spec{Ports: []uint16{8080}, To: 15006}
	families := []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6}
	if err := cfg.write(rules(s), families); err != nil {
		t.Fatal(err)
	}
	if _, err := cfg.verify(rules(s), families); err != nil {
		t.Fatal(err)
	}
	for family, address := range podAddresses {
		to := net.JoinHostPort(address, "8080")
		if got, want := ask(t, dial(t, p.outside, to)), "15006 for "+to; got != want {
			t.Errorf("%s: %s, want %s", family, got, want)
		}
	}
}

func TestRulesThatAnotherProgramChangedAreNoticed(t *testing.T) {
	p := newPair(t)
	cfg := Config{NetNS: int(p.pod)}
	p.apply(t, spec.Spec{Ports: []uint16{8080}, To: 15006, Mode: spec.ModeNFT})
	_, err := cfg.verify(rules(spec.Spec{Ports: []uint16{8081}, To: 15006}), []nftables.TableFamily{nftables.TableFamilyINet})
	if err == nil || !strings.Contains(err.Error(), "not those written") {
		t.Errorf("error %v", err)
	}
}
