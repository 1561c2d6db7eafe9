package redirect

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"

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
	want := lists.Map(rules, describe)
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

// read returns the rules of our chain in one family, as text.
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
