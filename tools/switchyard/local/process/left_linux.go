package process

import (
	"os"
	"path/filepath"
	"strings"
)

// left returns the processes of a group that have not ended.
func left(group int) []Left {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(all) == 0 {
		return listed(group)
	}
	var lines strings.Builder
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// ID (command) state parent group …
		begin, end := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
		if begin < 0 || end < begin {
			continue
		}
		if f := strings.Fields(string(text[end+1:])); len(f) > 2 {
			lines.WriteString(string(text[:begin]) + f[2] + " " + f[0] + " " + string(text[begin+1:end]) + "\n")
		}
	}
	return listing(lines.String(), group)
}
