package traffic

import (
	"fmt"
	"slices"
	"strings"

	"switchyard.dev/sidecars/traffic/published"
	"switchyard.dev/tools/switchyard/show"
)

// page is the terminal page of recorded requests, as a value: keys in, lines out.
type page struct {
	all []published.Meta
	// row returns a request as one line, and open its lines once it is opened.
	row  func(published.Meta) string
	open func(id string) []string

	width, height int
	at, top       int      // the selected request, and the first that is visible
	lines         []string // of the opened request; nil: the list
	down          int      // the first of lines that is visible
}

// Keys as terminals send them.
const (
	keyUp, keyDown, keyLeft, keyRight = "\x1b[A", "\x1b[B", "\x1b[D", "\x1b[C"
	keyPageUp, keyPageDown            = "\x1b[5~", "\x1b[6~"
	keyEscape, keyInterrupt           = "\x1b", "\x03"
)

// list replaces the requests. The selected one stays selected.
func (p *page) list(all []published.Meta) {
	if p.at < len(p.all) {
		id := p.all[p.at].MiddlewareRequestID
		if now := slices.IndexFunc(all, func(m published.Meta) bool { return m.MiddlewareRequestID == id }); now >= 0 {
			p.at = now
		}
	}
	p.all = all
	p.move(0)
}

// rows is the number of lines between the first and the last of the page.
func (p *page) rows() int { return max(1, p.height-2) }

// move moves the selection, or the lines of the opened request.
func (p *page) move(by int) {
	if p.lines != nil {
		p.down = max(0, min(p.down+by, len(p.lines)-p.rows()))
		return
	}
	p.at = max(0, min(p.at+by, len(p.all)-1))
	p.top = max(0, min(p.top, p.at), p.at-p.rows()+1)
}

// press handles a key, and reports whether the page ends.
func (p *page) press(key string) (ends bool) {
	far := len(p.all) + len(p.lines)
	switch key {
	case "q", keyInterrupt:
		return true
	case keyEscape, keyLeft, "h":
		ends = p.lines == nil && key == keyEscape
		p.lines, p.down = nil, 0
	case "\r", keyRight, "l":
		if p.lines == nil && len(p.all) > 0 {
			p.lines = p.open(p.all[p.at].MiddlewareRequestID)
		}
	case "k", keyUp:
		p.move(-1)
	case "j", keyDown:
		p.move(1)
	case keyPageUp, "b":
		p.move(-p.rows())
	case keyPageDown, " ":
		p.move(p.rows())
	case "g":
		p.move(-far)
	case "G":
		p.move(far)
	}
	return ends
}

// view returns the lines of the page, at most height, each at most width wide.
func (p *page) view() []string {
	var body []string
	title := "recorded requests: none yet"
	if len(p.all) > 0 {
		title = fmt.Sprintf("recorded requests: %d of %d", p.at+1, len(p.all))
	}
	help := "up/down: select   enter: open   q: quit"
	if p.lines != nil {
		title, help = p.row(p.all[p.at]), "up/down, space: scroll   escape: back   q: quit"
		body = p.lines[p.down:min(len(p.lines), p.down+p.rows())]
	} else {
		for i := p.top; i < min(len(p.all), p.top+p.rows()); i++ {
			mark := "  "
			if i == p.at {
				mark = "> "
			}
			body = append(body, mark+p.row(p.all[i]))
		}
	}
	lines := append([]string{title}, body...)
	lines = append(append(lines, make([]string, max(0, p.rows()-len(body)))...), help)
	for i, line := range lines {
		lines[i] = fitted(line, p.width)
	}
	return lines
}

// fitted returns a line of text without what a terminal would obey, cut to a width.
func fitted(line string, width int) string {
	runes := []rune(show.Line(strings.ReplaceAll(line, "\t", "    ")))
	return string(runes[:min(len(runes), width)])
}
