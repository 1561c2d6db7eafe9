package listeners_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"switchyard.dev/tests/hostile/listeners"
)

// model is the page that states what each listener serves before it knows the caller, and by
// which identity it counts callers.
const model = "../../../charts/operator/security-model.md"

// A new listener needs a row in the page "Security model" with all its cells, and a row needs
// a listener.
func TestTheSecurityModelHasEveryListener(t *testing.T) {
	page, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	rows := listenerRows(string(page))
	for _, l := range listeners.All() {
		name := fmt.Sprintf("%s %d", l.Program.Name, l.Port)
		cells, there := rows[name]
		delete(rows, name)
		if !there {
			t.Errorf("%s has no row in the table Listeners: add one with the requests it serves before it knows the caller, and the identity by which it counts callers", name)
			continue
		}
		for n, cell := range cells {
			if cell == "" {
				t.Errorf("%s: cell %d of its row is empty", name, n+1)
			}
		}
	}
	for name := range rows {
		t.Errorf("%s has a row in the table Listeners and is no listener", name)
	}
}

// listenerRows returns the cells of each row of the section Listeners by its first cell,
// without quotes.
func listenerRows(page string) map[string][]string {
	_, section, _ := strings.Cut(page, "\n## Listeners\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string][]string{}
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for n := range cells {
			cells[n] = strings.TrimSpace(cells[n])
		}
		rows[strings.ReplaceAll(cells[0], "`", "")] = cells[1:]
	}
	return rows
}
