package redirect

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"switchyard.dev/sidecars/redirect/spec"
)

// patience bounds each exchange with the kernel, which answers in microseconds
// or not at all.
const patience = 5 * time.Second

// Config says where to apply rules.
type Config struct {
	// NetNS is a descriptor of the network namespace, which stays the caller's.
	// Zero is the program's own.
	NetNS int
}

// Apply makes the inbound connections that s names go to s.To, replacing what
// an earlier call has set, and returns the rules in force as text, for a log.
// On error nothing has changed, unless the error says that the rules read back
// differ from those written.
func Apply(s spec.Spec, cfg Config) ([]string, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	families := []nftables.TableFamily{nftables.TableFamilyINet}
	err := cfg.write(rules(s), families)
	if unsupported(err) {
		families = []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6}
		err = cfg.write(rules(s), families)
	}
	if err != nil {
		return nil, explain(err)
	}
	return cfg.verify(rules(s), families)
}

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
		table := &nftables.Table{Name: tableName, Family: family}
		conn.AddTable(table) // so that there is one to delete
		conn.DelTable(table)
		conn.AddTable(table)
		inbound := conn.AddChain(chain(table))
		for _, rule := range rules {
			conn.AddRule(&nftables.Rule{Table: table, Chain: inbound, Exprs: rule})
		}
	}
	return conn.Flush()
}

// verify reads the rules of each family back and compares them with those
// meant.
func (c Config) verify(rules [][]expr.Any, families []nftables.TableFamily) ([]string, error) {
	var want []string
	for _, rule := range rules {
		want = append(want, describe(rule))
	}
	for _, family := range families {
		got, err := c.read(family)
		if err != nil {
			return nil, fmt.Errorf("rules were written but cannot be read back: %w", err)
		}
		if !slices.Equal(got, want) {
			return nil, fmt.Errorf("rules read back are not those written: want %q, got %q; does another program change table %s?",
				want, got, tableName)
		}
	}
	return want, nil
}

// read gives the rules of our chain in one family, as text.
func (c Config) read(family nftables.TableFamily) ([]string, error) {
	conn, err := c.conn()
	if err != nil {
		return nil, err
	}
	table := &nftables.Table{Name: tableName, Family: family}
	found, err := conn.GetRules(table, &nftables.Chain{Name: chainName, Table: table})
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, rule := range found {
		texts = append(texts, describe(rule.Exprs))
	}
	return texts, nil
}

// unsupported tells whether the kernel does not know NAT in the inet family.
func unsupported(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.ENOENT)
}

// explain says what to do about an error of the kernel's.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("no right to change the pod's network rules: the init container needs the capability NET_ADMIN and user 0: %w", err)
	case unsupported(err), errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("this node's kernel lacks nf_tables with NAT: load the modules nf_tables, nft_chain_nat and nft_redir on the node: %w", err)
	}
	return fmt.Errorf("nftables: %w", err)
}
