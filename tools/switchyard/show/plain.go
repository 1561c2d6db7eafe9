package show

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"switchyard.dev/eventbus/lists"
)

// Plain returns text without characters that a terminal would obey.
func Plain(s string) string {
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

// Line returns a text as one plain line.
func Line(s string) string { return strings.ReplaceAll(Plain(s), "\n", `\n`) }

// Indented returns a text with each line after the first indented.
func Indented(s string) string {
	return strings.ReplaceAll(strings.TrimRight(Plain(s), "\n"), "\n", "\n  ")
}

// colour is a sequence that changes colours and fonts of a terminal, as many programs write to logs.
var colour = regexp.MustCompile("\x1b\\[[0-9;:]*m")

// LogLine returns a line of a log for a terminal: tabs and the end of the line stay, colours are
// dropped, and everything else that a terminal would obey is escaped.
func LogLine(line string) string {
	text, ends := strings.CutSuffix(line, "\n")
	parts := strings.Split(colour.ReplaceAllString(strings.TrimSuffix(text, "\r"), ""), "\t")
	text = strings.Join(Lines(parts), "\t")
	if ends {
		text += "\n"
	}
	return text
}

// Lines returns each text as one plain line.
func Lines(texts []string) []string {
	return lists.Map(texts, Line)
}

// longestKey is the maximum number of characters of a routing key in text output. It fits all
// common keys: names, UUIDs, trace contexts.
const longestKey = 64

// shortened returns a routing key for text output: a longer one would break every table, and is cut
// in its middle.
func shortened(key string) string {
	runes := []rune(key)
	if len(runes) <= longestKey {
		return key
	}
	const tail = longestKey / 3
	return string(runes[:longestKey-1-tail]) + "…" + string(runes[len(runes)-tail:])
}

// ForPeople returns a copy of an answer with all its text made plain, and long routing
// keys cut wherever they stand.
func ForPeople[M proto.Message](m M) M {
	out := proto.CloneOf(m)
	var long []string
	edit(out.ProtoReflect(), func(f protoreflect.FieldDescriptor, s string) string {
		text := Line(s)
		if f.Name() == "routing_key" && shortened(text) != text {
			quoted := strconv.Quote(s) // as sentences have it
			long = append(long, text, quoted[1:len(quoted)-1])
		}
		return text
	})
	if len(long) == 0 {
		return out
	}
	// The longest first, since one may begin another.
	slices.SortFunc(long, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, key := range long {
		pairs = append(pairs, key, shortened(key))
	}
	cut := strings.NewReplacer(pairs...)
	edit(out.ProtoReflect(), func(_ protoreflect.FieldDescriptor, s string) string { return cut.Replace(s) })
	return out
}

// edit changes every text of a message, and of those in it.
func edit(m protoreflect.Message, change func(protoreflect.FieldDescriptor, string) string) {
	edited := func(f protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
		switch f.Kind() {
		case protoreflect.StringKind:
			return protoreflect.ValueOfString(change(f, v.String()))
		case protoreflect.MessageKind:
			edit(v.Message(), change)
		}
		return v
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() || f.Kind() == protoreflect.BytesKind:
		case f.IsList():
			list := v.List()
			for i := range list.Len() {
				list.Set(i, edited(f, list.Get(i)))
			}
		default:
			m.Set(f, edited(f, v))
		}
		return true
	})
}

// Grid is a table of text; the first row is its head. Its cells are shown as plain lines (Line),
// since most are from the cluster.
type Grid [][]string

// String aligns the columns, two spaces apart.
func (g Grid) String() string {
	var widths []int
	plain := make(Grid, 0, len(g))
	plain = append(plain, lists.Map(g, Lines)...)
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
