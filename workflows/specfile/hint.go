package specfile

import (
	"bytes"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// atLine matches a line number in errors of the library.
var atLine = regexp.MustCompile(`line (\d+): `)

// wrong returns the problem of a text that is not YAML.
func wrong(err error) Problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	p := Problem{Line: 1} // the library omits the first line
	if m := atLine.FindStringSubmatch(text); m != nil {
		p.Line, _ = strconv.Atoi(m[1]) // digits
		text = strings.Replace(text, m[0], "", 1)
		if strings.HasPrefix(text, "did not find expected") { // Its parser counts from 0, its scanner from 1.
			p.Line++
		}
	}
	p.Text = "is not YAML: " + text
	return p
}

// fix is a change of one line that may make a text YAML, and its description.
type fix struct {
	change func(line []byte) []byte // returns nil if it does not apply
	text   string
}

// value matches a line with a field or an item: the part before its value, and the value.
var value = regexp.MustCompile(`^(\s*(?:- +)*(?:[^"'#:\[{]+: +|- +))(\S.*?)\s*$`)

// quoting returns a change that puts the value of a line in quotes, if the value is of a form.
func quoting(form string) func([]byte) []byte {
	applies := regexp.MustCompile(form)
	return func(line []byte) []byte {
		m := value.FindSubmatch(line)
		if m == nil || !applies.Match(m[2]) {
			return nil
		}
		return slices.Concat(m[1], []byte("'"), bytes.ReplaceAll(m[2], []byte("'"), []byte("''")), []byte("'"))
	}
}

// closing returns a change that adds a closing character to a value that begins with an opening one.
func closing(opening, char string) func([]byte) []byte {
	return func(line []byte) []byte {
		if m := value.FindSubmatch(line); m == nil || !bytes.HasPrefix(m[2], []byte(opening)) || bytes.HasSuffix(m[2], []byte(char)) && len(m[2]) > 1 {
			return nil
		}
		return append(bytes.Clone(line), char...)
	}
}

// spaces replaces the tabs at the beginning of a line.
func spaces(line []byte) []byte {
	rest := bytes.TrimLeft(line, " \t")
	indent := line[:len(line)-len(rest)]
	if !bytes.Contains(indent, []byte("\t")) {
		return nil
	}
	return append(bytes.ReplaceAll(indent, []byte("\t"), []byte("  ")), rest...)
}

// inFlow is a directive without quotes in a list or an object on one line.
var inFlow = regexp.MustCompile(`([\[{,:]\s*)(@\{[^}]*\}[^,\]}]*)`)

// quotedInFlow puts such directives in quotes.
func quotedInFlow(line []byte) []byte {
	if !inFlow.Match(line) {
		return nil
	}
	return inFlow.ReplaceAll(line, []byte("$1'$2'"))
}

const directiveInQuotes = `put a text that begins with a directive in quotes: "@{name}"`

// fixes are those that are tried, the most specific first.
var fixes = []fix{
	{spaces, "indent with spaces, not with tabs"},
	{quoting(`^@\{`), directiveInQuotes},
	{quotedInFlow, directiveInQuotes},
	{quoting(`^("[^"]*"|'[^']*')\s*[^\s#]`), "put the quotes around the whole text"},
	{quoting(`^"[^"]*\\`), `write \\ for a backslash in double quotes, or use single quotes`},
	{closing(`"`, `"`), "close the quotes"}, {closing("'", "'"), "close the quotes"},
	{closing("[", "]"), "close the bracket ["}, {closing("{", "}"), "close the brace {"},
	{quoting(`^\{\{`), "put a text that begins with {{ in quotes"},
	{quoting("^[`%*&!@,|>?]"), "put a text that begins with this character in quotes"},
	{quoting(`^[^"'\[{].*:(\s|$)`), `put a text that contains ": " in quotes`},
}

// hinted returns a problem with the line of its cause, and with the fix that removes it if one of
// fixes does.
func hinted(text []byte, p Problem) Problem {
	lines := bytes.Split(text, []byte("\n"))
	candidates := []int{p.Line, p.Line - 1, p.Line + 1} // some errors of the library have a neighbouring line
	if context.MatchString(p.Text) {
		p.Line = 1 + sort.Search(len(lines)-1, func(n int) bool {
			_, err := parse(bytes.Join(lines[:n+1], []byte("\n")))
			return err != nil && err.Error() == (Problem{Text: p.Text}).Error()
		})
		candidates = []int{p.Line}
	}
	for _, f := range append(fixes[:len(fixes):len(fixes)], fix{text: "indent it as the line before it"}) {
		for _, at := range candidates {
			if at < 1 || at > len(lines) {
				continue
			}
			change := f.change
			if change == nil {
				change = aligned(lines[:at-1])
			}
			changed := change(bytes.TrimSuffix(lines[at-1], []byte("\r")))
			if changed != nil && !persists(lines, at, changed, p) {
				p.Line = at
				p.Text += "; " + f.text
				return p
			}
		}
	}
	return p
}

// context matches errors for which the library reports a line near their cause, or none. Such an
// error occurs with the line of its cause and not before.
var context = regexp.MustCompile("expected key|'-' indicator|tab character|unknown anchor|control characters|UTF-8")

// aligned returns a change that gives a line the indentation of the last line before it.
func aligned(before [][]byte) func([]byte) []byte {
	return func(line []byte) []byte {
		for _, b := range slices.Backward(before) {
			if rest := bytes.TrimLeft(b, " "); len(bytes.TrimSpace(rest)) > 0 {
				return append(bytes.Clone(b[:len(b)-len(rest)]), bytes.TrimLeft(line, " ")...)
			}
		}
		return nil
	}
}

// persists reports whether a text with one other line still has a problem at or before that line.
func persists(lines [][]byte, at int, changed []byte, p Problem) bool {
	all := slices.Clone(lines)
	all[at-1] = changed
	_, err := parse(bytes.Join(all, []byte("\n")))
	if err == nil {
		return false
	}
	still, ok := err.(Problem) //nolint:errorlint // parse returns nothing else.
	return !ok || still.Line <= max(at, p.Line)
}
