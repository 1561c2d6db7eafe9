package structure

import (
	"regexp"
	"strings"
)

// entry is a line with a name and a value: "name: value", "name=value", a metric.
var entry = regexp.MustCompile(`^([^\s:={]+(?:\{[^}]*\})?)\s*[:= ]\s*(.*)$`)

// Lines decodes text: of several lines with names that differ an object, otherwise a list of lines, of one line its text.
func Lines(body string) *Value {
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(body, "\r\n", "\n"), "\n"), "\n")
	if len(lines) == 1 {
		return &Value{Kind: Text, Text: lines[0]}
	}
	var members []Member
	names := map[string]bool{}
	list := &Value{Kind: List}
	for _, line := range lines {
		list.Elements = append(list.Elements, &Value{Kind: Text, Text: line})
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		m := entry.FindStringSubmatch(line)
		if m == nil || names[m[1]] {
			members = nil
			names[""] = true
			continue
		}
		names[m[1]] = true
		members = append(members, Member{m[1], &Value{Kind: Text, Text: m[2]}})
	}
	if names[""] || len(members) == 0 {
		return list
	}
	return ObjectOf(members...)
}
