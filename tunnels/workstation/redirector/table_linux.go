package redirector

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/tunnels/workstation/redirect"
)

// RedirectsIPv6 reports whether IPv6 is redirected too.
const RedirectsIPv6 = true

// patience bounds each exchange with the kernel, which answers in microseconds or not at all.
const patience = 5 * time.Second

// atOnce bounds the elements of one transaction, so that it fits a socket's buffer.
const atOnce = 512

// Table is a set of rules in the kernel. It is not safe for concurrent use.
type Table struct {
	name   string
	socket *netlink.Conn // the owner
	conn   *nftables.Conn
	table  *nftables.Table
	chain  *nftables.Chain
	sets   map[bool]*nftables.Set // true: of IPv4
	have   map[netip.Addr]bool
}

// Open makes an empty table that is removed with this process. The error names the remedy.
func Open(name string) (*Table, error) {
	t := &Table{name: name, table: &nftables.Table{Name: name, Family: nftables.TableFamilyINet}, sets: map[bool]*nftables.Set{}, have: map[netip.Addr]bool{}}
	keep := func(c *netlink.Conn) error { t.socket = c; return nil }
	var err error
	if t.conn, err = nftables.New(nftables.AsLasting(), nftables.WithSockOptions(keep)); err != nil {
		return nil, fmt.Errorf("reach nftables of the kernel: %w", err)
	}
	if err := t.own(); err != nil {
		_ = t.Close()
		return nil, err
	}
	accept := nftables.ChainPolicyAccept
	t.chain = t.conn.AddChain(&nftables.Chain{Name: "out", Table: t.table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest, Policy: &accept})
	t.sets[true] = &nftables.Set{Table: t.table, Name: "addresses4", KeyType: nftables.TypeIPAddr}
	t.sets[false] = &nftables.Set{Table: t.table, Name: "addresses6", KeyType: nftables.TypeIP6Addr}
	for _, four := range []bool{true, false} {
		if err := t.conn.AddSet(t.sets[four], nil); err != nil {
			_ = t.Close()
			return nil, err
		}
	}
	if err := t.flush(); err != nil {
		_ = t.Close()
		return nil, fmt.Errorf("the kernel takes no chain of type nat of nftables: load its modules nft_chain_nat and nft_redir (%w)", err)
	}
	return t, nil
}

// own creates the table with the socket as its owner, which the library does not support.
func (t *Table) own() error {
	const owner = 2 // NFT_TABLE_F_OWNER
	attributes, err := netlink.MarshalAttributes([]netlink.Attribute{
		{Type: unix.NFTA_TABLE_NAME, Data: []byte(t.name + "\x00")},
		{Type: unix.NFTA_TABLE_FLAGS, Data: binaryutil.BigEndian.PutUint32(owner)},
	})
	if err != nil {
		return err
	}
	message := func(kind int, flags netlink.HeaderFlags, family byte, subsystem uint16, data []byte) netlink.Message {
		head := append([]byte{family, unix.NFNETLINK_V0}, binaryutil.BigEndian.PutUint16(subsystem)...)
		return netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(kind), Flags: netlink.Request | flags}, Data: append(head, data...)}
	}
	if err := t.socket.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err = t.socket.SendMessages([]netlink.Message{
		message(unix.NFNL_MSG_BATCH_BEGIN, 0, 0, unix.NFNL_SUBSYS_NFTABLES, nil),
		message(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWTABLE, netlink.Acknowledge|netlink.Create|netlink.Excl, byte(nftables.TableFamilyINet), 0, attributes),
		message(unix.NFNL_MSG_BATCH_END, 0, 0, unix.NFNL_SUBSYS_NFTABLES, nil),
	})
	if err == nil {
		_, err = t.socket.Receive()
	}
	return t.explained(err)
}

// explained adds the cause and the remedy to an error of the first message. EPERM has two causes:
// another process owns the table, or CAP_NET_ADMIN is missing. Without the capability tables
// cannot be listed either, which distinguishes them.
func (t *Table) explained(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EEXIST), errors.Is(err, unix.EPERM) && t.exists():
		return fmt.Errorf("another program owns table %s of nftables: end the other privileged connection first, since there can be only one (%w)", t.name, err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("redirecting connections of this machine takes CAP_NET_ADMIN: connect by sudo, or give it with setcap cap_net_admin+ep to a copy of the program that only root and your group can run (mode 0750) (%w)", err)
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("the kernel does not support tables with an owner in nftables: Linux 5.12 or later with nf_tables is required (%w)", err)
	}
	return fmt.Errorf("make table %s of nftables: %w", t.name, err)
}

// exists reports whether there is a table of the name.
func (t *Table) exists() bool {
	_, err := t.conn.ListTableOfFamily(t.name, t.table.Family)
	return err == nil
}

// Close removes the rules.
func (t *Table) Close() error { return t.conn.CloseLasting() }

func (t *Table) flush() error {
	if err := t.socket.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	return t.conn.Flush()
}

// Set makes the rules those of r; Name and Mark are set here. The rules change as one, and the
// single addresses after them.
func (t *Table) Set(r redirect.Rules) error {
	r.Name = t.name
	if err := r.Check(); err != nil {
		return err
	}
	t.conn.FlushChain(t.chain)
	for _, rule := range rules(r, t.sets) {
		t.conn.AddRule(&nftables.Rule{Table: t.table, Chain: t.chain, Exprs: rule})
	}
	if err := t.flush(); err != nil {
		return fmt.Errorf("give rules to the kernel: %w", err)
	}
	want := lists.Set(r.Addresses)
	lacking := func(in map[netip.Addr]bool) func(netip.Addr) bool {
		return func(a netip.Addr) bool { return in[a] }
	}
	gone := slices.DeleteFunc(slices.Collect(maps.Keys(t.have)), lacking(want))
	further := slices.DeleteFunc(slices.Collect(maps.Keys(want)), lacking(t.have))
	return errors.Join(t.change(gone, t.conn.SetDeleteElements, false), t.change(further, t.conn.SetAddElements, true))
}

// change adds or removes single addresses.
func (t *Table) change(all []netip.Addr, do func(*nftables.Set, []nftables.SetElement) error, there bool) error {
	for part := range slices.Chunk(all, atOnce) {
		for _, four := range []bool{true, false} {
			var elements []nftables.SetElement
			for _, a := range redirect.Singles(part, four) {
				elements = append(elements, nftables.SetElement{Key: a.AsSlice()})
			}
			if len(elements) == 0 {
				continue
			}
			if err := do(t.sets[four], elements); err != nil {
				return err
			}
		}
		if err := t.flush(); err != nil {
			return fmt.Errorf("change the redirected addresses: %w", err)
		}
		for _, a := range part {
			if there {
				t.have[a] = true
			} else {
				delete(t.have, a)
			}
		}
	}
	return nil
}
