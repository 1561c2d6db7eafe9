// Package differences reads the table in sidecars/devmesh/README.md: what a caller or an
// application can see with the sidecar and not without.
package differences

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"switchyard.dev/tests/conformance/crd"
)

// Row is one row of the table.
type Row struct {
	// Case names cases: the suite's name, a slash, the case's name. * matches anything.
	Case string
	// Bare, With and Why are for readers.
	Bare, With, Why string
}

// Matches reports whether the row is about a case.
func (r Row) Matches(name string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(r.Case), `\*`, `.*`)
	return regexp.MustCompile(`^` + pattern + `$`).MatchString(name)
}

// heading is the first row of the table.
const heading = "| case | bare | with the sidecar | why |"

// Table reads the table, from a working directory inside the repository. A row that names several
// cases in its first column, with commas between, becomes as many rows.
func Table() ([]Row, error) {
	root, err := crd.Root()
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(root, "sidecars", "devmesh", "README.md"))
	if err != nil {
		return nil, err
	}
	_, table, found := strings.Cut(string(content), heading+"\n")
	if !found {
		return nil, fmt.Errorf("no table that begins with %q", heading)
	}
	var rows []Row
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			break
		}
		columns := strings.Split(strings.Trim(line, "|"), " | ")
		if strings.HasPrefix(line, "| ---") {
			continue
		}
		if len(columns) != 4 {
			return nil, fmt.Errorf("%d columns, not 4: %s", len(columns), line)
		}
		for name := range strings.SplitSeq(columns[0], ",") {
			rows = append(rows, Row{strings.Trim(name, " `"), strings.TrimSpace(columns[1]), strings.TrimSpace(columns[2]), strings.TrimSpace(columns[3])})
		}
	}
	if len(rows) == 0 {
		return nil, errors.New("the table has no rows")
	}
	return rows, nil
}
