package fields

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"switchyard.dev/tests/figures"
)

// Report prints each field of each kind with the row that shows it, and how many
// rows do, from what rows noted in the folder; then the share of fields that are
// shown, as a figure. With brief only the fields that no row shows.
func Report(w io.Writer, folder string, brief bool) error {
	shown, err := read(folder)
	if err != nil {
		return err
	}
	fields, covered := 0, 0
	for _, kind := range Kinds() {
		all := Of(kind)
		missing := slices.DeleteFunc(slices.Clone(all), func(f Field) bool { return len(shown[kind+" "+f.Path].rows(f)) > 0 })
		fmt.Fprintf(w, "\n%s: %d of %d fields\n", kind, len(all)-len(missing), len(all))
		fields, covered = fields+len(all), covered+len(all)-len(missing)
		for _, f := range all {
			rows := shown[kind+" "+f.Path].rows(f)
			switch {
			case len(rows) == 0:
				fmt.Fprintf(w, "  %-60s NO ROW SHOWS IT\n", f.Path)
			case brief:
			case f.Ignored != "":
				fmt.Fprintf(w, "  %-60s changes nothing (%s): %s%s\n", f.Path, f.Ignored, rows[0], more(rows))
			default:
				fmt.Fprintf(w, "  %-60s %s%s\n", f.Path, rows[0], more(rows))
			}
		}
	}
	fmt.Fprintln(w)
	figures.Text(w, "published-fields-shown", fmt.Sprintf("%d of %d", covered, fields), "fields", "all", covered == fields)
	return nil
}

// more returns how many other rows there are.
func more(rows []string) string {
	if len(rows) == 1 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", len(rows)-1)
}

// seen are the rows that set a field: those with a decision that differs without
// it, and those with one that does not.
type seen struct{ differs, same []string }

// rows returns those that show the field. One that is to change nothing is shown as
// long as it never does.
func (s seen) rows(f Field) []string {
	if f.Ignored == "" {
		return s.differs
	}
	if len(s.differs) > 0 {
		return nil
	}
	return s.same
}

// read returns what rows noted, by kind and path.
func read(folder string) (map[string]seen, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("read what rows show: %w", err)
	}
	out := map[string]seen{}
	for _, name := range files {
		if err := readFile(name, out); err != nil {
			return nil, fmt.Errorf("read what rows show: %w", err)
		}
	}
	return out, nil
}

// readFile adds what one process noted.
func readFile(name string, out map[string]seen) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	decoder := json.NewDecoder(bufio.NewReader(file))
	for decoder.More() {
		var s Shown
		if err := decoder.Decode(&s); err != nil {
			return err
		}
		at := out[s.Kind+" "+s.Path]
		if s.Differs {
			at.differs = append(at.differs, s.Row)
		} else {
			at.same = append(at.same, s.Row)
		}
		out[s.Kind+" "+s.Path] = at
	}
	return nil
}
