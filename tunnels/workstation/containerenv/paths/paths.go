// Package paths moves the paths in a value of an environment variable below another folder.
//
// A path is moved only where it is certainly one: as the whole value; as an entry of a list with
// colons (if all entries are absolute), commas, semicolons or blanks; in quotes, as in JSON;
// after a name and =, as in options; after a one-letter option, as in -I/include; in a file URL;
// and as a value in the query of a URL, as in sslrootcert. Elsewhere (host paths of URLs,
// jdbc:sqlite:/x, /x:ro) a value is unchanged. A value is moved as a whole or not at all.
package paths

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Below returns a value with the paths in folders moved below root. left reports whether the value
// names such a path in a form that is not understood, and is returned unchanged.
func Below(value, root string, folders []string) (moved string, left bool) {
	v := &reading{value: value, folders: folders}
	v.words()
	if v.doubt || len(v.mentions()) > len(v.at) || len(v.at) > 0 && !plain.MatchString(root) && !v.whole() {
		return value, true
	}
	for _, at := range slices.Backward(v.at) {
		value = value[:at] + root + value[at:]
	}
	return value, false
}

// plain matches a folder that needs no escaping in quotes, JSON, URLs and lists.
var plain = regexp.MustCompile(`^[A-Za-z0-9/._+~-]*$`)

// reading is the analysis of one value.
type reading struct {
	value   string
	folders []string
	at      []int // where paths begin, in their order
	doubt   bool  // a path is written with .. or escapes
}

// whole reports whether the value is one path.
func (v *reading) whole() bool { return len(v.at) == 1 && v.at[0] == 0 }

// within reports whether a path is one of the folders, or in one.
func (v *reading) within(p string) bool {
	return slices.ContainsFunc(v.folders, func(f string) bool {
		return p == f || strings.HasPrefix(p, strings.TrimSuffix(f, "/")+"/")
	})
}

// mentions returns the positions where the value may name a path in one of the folders, in any
// context.
func (v *reading) mentions() (out []int) {
	text := strings.ReplaceAll(v.value, `\/`, "/")
	if decoded, err := url.PathUnescape(text); err == nil && strings.Contains(strings.ToLower(text), "%2f") {
		text = decoded
	}
	for _, f := range v.folders {
		f = strings.TrimSuffix(f, "/")
		for from := 0; f != ""; {
			i := strings.Index(text[from:], f)
			if i < 0 {
				break
			}
			i += from
			if begins(text[:i]) && ends(text[i+len(f):]) && !slices.Contains(out, i) {
				out = append(out, i)
			}
			from = i + 1
		}
	}
	return out
}

// begins reports whether a path can begin after a text. After a host, a folder or an unresolved
// reference it is the end of another path.
func begins(before string) bool {
	if before == "" || strings.HasSuffix(before, "://") || oneLetter.MatchString(before) {
		return true
	}
	last := before[len(before)-1]
	return !word(last) && !strings.ContainsRune("/.~)]}", rune(last))
}

// oneLetter is the end of a text before the path of an option such as -I.
var oneLetter = regexp.MustCompile(`(^|[\s,;"'=])-[A-Za-z]$`)

func ends(after string) bool {
	return after == "" || !word(after[0]) && after[0] != '.' && after[0] != '-'
}

func word(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c >= 0x80
}

// words reads the words between blanks, commas, semicolons and quotes.
func (v *reading) words() {
	for from := 0; from < len(v.value); {
		n := strings.IndexAny(v.value[from:], " \t\r\n,;\"'")
		if n < 0 {
			n = len(v.value) - from
		}
		v.word(from, from+n)
		from += n + 1
	}
}

// option matches the part of a word that may precede a path.
var option = regexp.MustCompile(`^([^/:?@=]*=|-[A-Za-z]/)`)

// word reads one word.
func (v *reading) word(from, to int) {
	for from < to && v.value[from] != '/' {
		m := strings.TrimSuffix(option.FindString(v.value[from:to]), "/")
		if m == "" {
			break
		}
		from += len(m)
	}
	text := v.value[from:to]
	scheme, rest, isURL := strings.Cut(text, ":")
	switch {
	case strings.HasPrefix(text, "/"), strings.HasPrefix(text, ":"):
		v.doubt = v.doubt || v.afterURL(from, to)
		v.list(from, to)
	case isURL && strings.EqualFold(scheme, "file"):
		host := "//localhost/"
		switch {
		case strings.HasPrefix(rest, "///"):
			v.url(to-len(rest)+2, to)
		case strings.HasPrefix(rest, host):
			v.url(to-len(rest)+len(host)-1, to)
		case strings.HasPrefix(rest, "/") && !strings.HasPrefix(rest, "//"):
			v.url(to-len(rest), to)
		}
	default:
		v.query(from, to)
	}
}

// afterURL reports whether a word may be the rest of a URL that has a comma in its user or password.
func (v *reading) afterURL(from, to int) bool {
	before := v.value[strings.LastIndexAny(v.value[:from], " \t\r\n\"'")+1 : from]
	return strings.Contains(before, "://") && strings.Contains(v.value[from:to], "@")
}

// list reads paths with colons between them.
func (v *reading) list(from, to int) {
	entries := strings.Split(v.value[from:to], ":")
	if slices.ContainsFunc(entries, func(e string) bool { return e != "" && !strings.HasPrefix(e, "/") }) {
		return
	}
	for _, e := range entries {
		v.path(from, e)
		from += len(e) + 1
	}
}

// url reads the path of a file URL.
func (v *reading) url(from, to int) {
	text := v.value[from:to]
	if end := strings.IndexAny(text, "?#"); end >= 0 {
		text = text[:end]
	}
	v.path(from, text)
}

// query reads the values of a URL's query.
func (v *reading) query(from, to int) {
	i := strings.IndexByte(v.value[from:to], '?')
	if i < 0 {
		return
	}
	from += i + 1
	for _, pair := range strings.Split(v.value[from:to], "&") {
		if name, value, ok := strings.Cut(pair, "="); ok && strings.HasPrefix(value, "/") {
			v.path(from+len(name)+1, value)
		}
		from += len(pair) + 1
	}
}

// path notes a path that is in one of the folders.
func (v *reading) path(at int, text string) {
	clean := path.Clean(text)
	straight := v.within(strings.TrimSuffix(text, "/")) || v.within(text)
	switch dots := slices.Contains(strings.Split(text, "/"), ".."); {
	case text == "":
	case dots && (v.within(clean) || straight):
		v.doubt = true
	case straight:
		v.at = append(v.at, at)
	case v.within(clean): // with // or /./ before the folder's end
		v.doubt = true
	}
}
