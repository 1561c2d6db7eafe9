package redirect_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"switchyard.dev/tunnels/workstation/redirect"
)

// The narrowest range of a table counts: one that is excepted stays so whatever is in it.
func TestExceptionsOnMacOSArePreserved(t *testing.T) {
	r := rules()
	r.Ranges, r.DNS, r.Resolvers = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}, 0, nil
	r.Except = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/24"), netip.MustParsePrefix("172.16.0.0/12")}
	text, err := redirect.PF(r)
	if want := "table <cluster> { 10.96.0.0/12, 203.0.113.9/32, !10.96.0.0/24 }\n"; err != nil || !strings.HasPrefix(text, want) {
		t.Errorf("it begins otherwise than %s: %v\n%s", want, err, text)
	}
	if strings.Contains(text, "53") {
		t.Errorf("queries are redirected without a server:\n%s", text)
	}
	r.Except = []netip.Prefix{netip.MustParsePrefix("8.0.0.0/5"), netip.MustParsePrefix("203.0.113.0/24")}
	if text, err = redirect.PF(r); text != "" || err != nil {
		t.Errorf("with everything excepted: %v\n%s", err, text)
	}
}

func TestRulesThatPFCannotHave(t *testing.T) {
	for name, change := range map[string]func(*redirect.Rules){
		"a user other than root":      func(r *redirect.Rules) { r.UID = 0 },
		"no resolver of this machine": func(r *redirect.Rules) { r.Resolvers = r.Resolvers[1:] },
		"is no name of a table":       func(r *redirect.Rules) { r.Name = "" },
	} {
		r := rules()
		change(&r)
		if text, err := redirect.PF(r); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

// What Apple's pfctl writes, on a kernel without ALTQ.
func TestReferenceToPF(t *testing.T) {
	const said = "No ALTQ support in kernel\nALTQ related functions disabled\npf enabled\nToken : 13450923837624501537\n"
	if got, err := redirect.Token(said); got != "13450923837624501537" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, said := range []string{"", "pf enabled\n", "pfctl: /dev/pf: Permission denied\n", "Token : -X\n", "Token : 1 2\n"} {
		if got, err := redirect.Token(said); err == nil {
			t.Errorf("%q: %q", said, got)
		}
	}
}

// natlook is struct pfioc_natlook as XNU's bsd/net/pfvar.h has it; its unions of a port are four bytes.
type natlook struct {
	Saddr, Daddr, Rsaddr, Rdaddr       [16]byte
	Sxport, Dxport, Rsxport, Rdxport   [4]byte
	AF, Proto, ProtoVariant, Direction uint8
}

func TestOriginalDestination(t *testing.T) {
	from, here := netip.MustParseAddrPort("192.168.1.2:50001"), netip.MustParseAddrPort("[::ffff:127.0.0.1]:15100")
	asked, err := redirect.Asked(from, here)
	if err != nil {
		t.Fatal(err)
	}
	want := natlook{Saddr: [16]byte{192, 168, 1, 2}, Daddr: [16]byte{127, 0, 0, 1}, Sxport: [4]byte{0xc3, 0x51}, Dxport: [4]byte{0x3a, 0xfc}, AF: 2, Proto: 6, Direction: 2}
	if got := encoded(t, want); !bytes.Equal(asked[:], got) {
		t.Errorf("it asks % x, want % x", asked, got)
	}
	want.Rdaddr, want.Rdxport = [16]byte{10, 96, 0, 10}, [4]byte{0, 80}
	want.Rsaddr, want.Rsxport = want.Saddr, want.Sxport
	if got := redirect.Answered([84]byte(encoded(t, want))); got != netip.MustParseAddrPort("10.96.0.10:80") {
		t.Errorf("it was to go to %s", got)
	}
	if redirect.Lookup != 0xc0544417 {
		t.Errorf("the request is %x", redirect.Lookup)
	}
	if _, err := redirect.Asked(netip.MustParseAddrPort("[fd00::1]:1"), here); err == nil {
		t.Error("IPv6 is asked for")
	}
}

func encoded(t *testing.T, value natlook) []byte {
	var out bytes.Buffer
	if err := binary.Write(&out, binary.NativeEndian, value); err != nil || out.Len() != 84 {
		t.Fatalf("%d bytes, %v", out.Len(), err)
	}
	return out.Bytes()
}
