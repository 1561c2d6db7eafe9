package fold

import (
	"fmt"
	"strings"

	"switchyard.dev/routeserver/table"
)

// Text writes a table down: a line for each rule, sorted, a line with the custom
// headers that carry keys if there are any, and the hash last.
// Equal tables have equal bytes on any machine. Names are quoted as Go does, so
// that no name can look like another line.
func Text(t table.Table) string {
	var b strings.Builder
	for r := range t.All() {
		fmt.Fprintf(&b, "%s %q %q -> %q by %s %q %q %q ready=%t",
			r.Baseline.Kind, r.Baseline.Namespace+"/"+r.Baseline.Name, r.RoutingKey, r.Sandbox,
			r.Member.Kind, r.Member.Namespace, r.Member.Name, r.Member.UID, r.Ready)
		for _, m := range r.Mappings {
			fmt.Fprintf(&b, " %d:", m.WorkloadPort)
			for _, d := range m.Destinations {
				fmt.Fprintf(&b, "[%q %d %q]", d.Host, d.Port, d.Address)
			}
		}
		b.WriteByte('\n')
	}
	if names := t.KeyHeaders(); len(names) > 0 {
		fmt.Fprintf(&b, "key headers %q\n", names)
	}
	fmt.Fprintf(&b, "hash %s\n", t.Hash())
	return b.String()
}
