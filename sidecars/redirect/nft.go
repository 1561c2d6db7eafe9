package redirect

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/sidecars/redirect/spec"
)

// patience bounds each exchange with the kernel, which answers in microseconds
// or not at all.
const patience = 5 * time.Second

// conn opens a connection that gives up after patience.
func (c Config) conn() (*nftables.Conn, error) {
	deadline := func(conn *netlink.Conn) error { return conn.SetDeadline(time.Now().Add(patience)) }
	return nftables.New(nftables.WithNetNSFd(c.NetNS), nftables.WithSockOptions(deadline))
}

// write replaces our table in each family with these rules, all in one
// transaction.
func (c Config) write(rules [][]expr.Any, families []nftables.TableFamily) error {
	conn, err := c.conn()
	if err != nil {
		return err
	}
	for _, family := range families {
		table := &nftables.Table{Name: c.hook.names().table, Family: family}
		conn.AddTable(table) // so that there is one to delete
		conn.DelTable(table)
		conn.AddTable(table)
		hooked := conn.AddChain(c.hook.chain(table))
		for _, rule := range rules {
			conn.AddRule(&nftables.Rule{Table: table, Chain: hooked, Exprs: rule})
		}
	}
	return conn.Flush()
}

// verify reads the rules of each family back and compares them with those
// meant.
func (c Config) verify(rules [][]expr.Any, families []nftables.TableFamily) ([]string, error) {
	want := lists.Map(rules, describe)
	for _, family := range families {
		got, err := c.read(family)
		if err != nil {
			return nil, unread(err)
		}
		if !slices.Equal(got, want) {
			return nil, fmt.Errorf("rules read back are not those written: want %q, got %q; does another program change table %s?",
				want, got, c.hook.names().table)
		}
	}
	return want, nil
}

// read returns the rules of our chain in one family, as text.
func (c Config) read(family nftables.TableFamily) ([]string, error) {
	conn, err := c.conn()
	if err != nil {
		return nil, err
	}
	table := &nftables.Table{Name: c.hook.names().table, Family: family}
	found, err := conn.GetRules(table, &nftables.Chain{Name: c.hook.names().chain, Table: table})
	if err != nil {
		return nil, err
	}
	return lists.Map(found, func(rule *nftables.Rule) string { return describe(rule.Exprs) }), nil
}

// nft makes the rules with nftables, and gives them as text.
func (c Config) nft(s spec.Spec) ([]string, error) {
	families := []nftables.TableFamily{nftables.TableFamilyINet}
	err := c.write(rules(s), families)
	if lacking(err) {
		families = []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6}
		err = c.write(rules(s), families)
	}
	if err != nil {
		return nil, explain(err, nftWants)
	}
	return c.verify(rules(s), families)
}

// Names of the operator's table and its only chain.
const (
	tableName = "switchyard"
	chainName = "inbound"
)

// hook is where connections are redirected. Rules of both can be in one pod.
type hook int

const (
	inbound hook = iota
	outgoing
)

// names are those of a table and its only chain.
type names struct{ table, chain string }

func (h hook) names() names {
	if h == outgoing {
		return names{"switchyard-jobs", "outgoing"}
	}
	return names{tableName, chainName}
}

// loopback is how the kernel compares an interface name: padded to its size.
var loopback = func() [unix.IFNAMSIZ]byte {
	var name [unix.IFNAMSIZ]byte
	copy(name[:], "lo")
	return name
}()

// rules returns a Spec as expressions of nftables, in order.
func rules(s spec.Spec) [][]expr.Any {
	all := [][]expr.Any{by(expr.MetaKeyIIFNAME, loopback[:], pass())}
	if s.Outgoing != 0 {
		all = [][]expr.Any{
			by(expr.MetaKeyOIFNAME, loopback[:], pass()),
			by(expr.MetaKeySKUID, binary.NativeEndian.AppendUint32(nil, s.Outgoing), pass()),
			marked(pass()),
			linkLocal(pass()),
		}
	}
	all = append(all, lists.Map(s.Except, func(port uint16) []expr.Any { return toPort(port, pass()) })...)
	for _, port := range s.Ports {
		all = append(all, toPort(port, opening(redirectTo(s.To)...)...))
	}
	if s.All {
		all = append(all, tcp(opening(redirectTo(s.To)...)...))
	}
	return all
}

// by matches a property of packets that is not in them.
func by(key expr.MetaKey, value []byte, action expr.Any) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: key, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: value},
		action,
	}
}

// marked matches packets with a mark: those that a mesh in the pod's network (Istio's ambient mode) sends.
func marked(action expr.Any) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
		action,
	}
}

// linkLocal matches packets to fe80::/10. Such an address needs an interface, which a redirected connection loses.
func linkLocal(action expr.Any) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.NFPROTO_IPV6}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 24, Len: 2},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 2, Mask: []byte{0xff, 0xc0}, Xor: []byte{0, 0}},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{0xfe, 0x80}},
		action,
	}
}

func tcp(then ...expr.Any) []expr.Any {
	return append([]expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
	}, then...)
}

// toPort matches the destination port, which stands at offset 2 of the header.
func toPort(port uint16, then ...expr.Any) []expr.Any {
	return append(tcp(
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, port)},
	), then...)
}

// opening matches the first packet of a connection: of the flags FIN, SYN, RST
// and ACK, only SYN. The kernel takes any packet of a connection it has not
// followed so far for a new one, and it begins to follow connections only with
// our first rule, so without this a connection that stands would be torn.
func opening(then ...expr.Any) []expr.Any {
	const fin, syn, rst, ack = 0x01, 0x02, 0x04, 0x10
	return append([]expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 13, Len: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{fin | syn | rst | ack}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{syn}},
	}, then...)
}

func pass() expr.Any { return &expr.Verdict{Kind: expr.VerdictReturn} }

func redirectTo(port uint16) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: 1, Data: binary.BigEndian.AppendUint16(nil, port)},
		&expr.Redir{RegisterProtoMin: 1, RegisterProtoMax: 1},
	}
}

// describe returns a rule as text, to be compared and shown. Unused expressions appear by their
// Go type, so a rule with one never equals a rule of this package.
func describe(rule []expr.Any) string {
	var words []string
	for _, e := range rule {
		switch e := e.(type) {
		case *expr.Meta:
			words = append(words, map[expr.MetaKey]string{
				expr.MetaKeyIIFNAME: "iifname", expr.MetaKeyL4PROTO: "protocol", expr.MetaKeyNFPROTO: "family",
				expr.MetaKeyOIFNAME: "oifname", expr.MetaKeySKUID: "user", expr.MetaKeyMARK: "mark"}[e.Key])
		case *expr.Payload:
			words = append(words, map[uint32]string{2: "dport", 13: "flags", 24: "daddr"}[e.Offset])
		case *expr.Bitwise:
			words = append(words, "& "+value(e.Mask))
		case *expr.Cmp:
			words = append(words, fmt.Sprintf("%s%s", map[expr.CmpOp]string{expr.CmpOpNeq: "not "}[e.Op], value(e.Data)))
		case *expr.Immediate:
			words = append(words, "port "+value(e.Data))
		case *expr.Redir:
			words = append(words, "redirect")
		case *expr.Verdict:
			words = append(words, map[expr.VerdictKind]string{expr.VerdictReturn: "return"}[e.Kind])
		default:
			words = append(words, fmt.Sprintf("%T", e))
		}
	}
	return strings.Join(words, " ")
}

// value shows the data of an expression: a port, an interface, a protocol, a user.
func value(data []byte) string {
	switch len(data) {
	case 1:
		return fmt.Sprint(data[0])
	case 2:
		return fmt.Sprint(binary.BigEndian.Uint16(data))
	case 4:
		return fmt.Sprint(binary.NativeEndian.Uint32(data))
	}
	return string(bytes.TrimRight(data, "\x00"))
}

// chain returns the chain within a table. Policy accept is the default.
func (h hook) chain(t *nftables.Table) *nftables.Chain {
	c := &nftables.Chain{
		Name:     h.names().chain,
		Table:    t,
		Type:     nftables.ChainTypeNAT,
		Hooknum:  nftables.ChainHookPrerouting,
		Priority: nftables.ChainPriorityNATDest,
	}
	if h == outgoing { // before the rules of a mesh
		c.Hooknum, c.Priority = nftables.ChainHookOutput, nftables.ChainPriorityRef(*nftables.ChainPriorityNATDest-1)
	}
	return c
}
