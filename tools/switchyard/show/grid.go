package show

import (
	"strings"
	"unicode/utf8"
)

// Grid is a table of text; the first row is its head. Its cells are shown as plain lines (Line),
// since most are from the cluster.
type Grid [][]string

// String aligns the columns, two spaces apart.
func (g Grid) String() string {
	var widths []int
	plain := make(Grid, 0, len(g))
	for _, row := range g {
		plain = append(plain, Lines(row))
	}
	for _, row := range plain {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range plain {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
	return b.String()
}
