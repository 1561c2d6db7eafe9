package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// grid is a table of text; the first row is its head.
type grid [][]string

// String aligns the columns, two spaces apart.
func (g grid) String() string {
	var widths []int
	for _, row := range g {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range g {
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

// plain gives text without characters that a terminal would obey.
func plain(s string) string {
	clean := strings.IndexFunc(s, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) < 0
	if clean && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '\n' || unicode.IsPrint(r) && r != utf8.RuneError:
			b.WriteRune(r)
		case r == utf8.RuneError:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// forPeople gives a copy of an answer with all its text made plain.
func forPeople[M proto.Message](m M) M {
	out := proto.CloneOf(m)
	clean(out.ProtoReflect())
	return out
}

func clean(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() || f.Kind() == protoreflect.BytesKind:
		case f.IsList():
			list := v.List()
			for i := range list.Len() {
				list.Set(i, cleaned(f, list.Get(i)))
			}
		default:
			m.Set(f, cleaned(f, v))
		}
		return true
	})
}

func cleaned(f protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(strings.ReplaceAll(plain(v.String()), "\n", `\n`))
	case protoreflect.MessageKind:
		clean(v.Message())
	}
	return v
}
