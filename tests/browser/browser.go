package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/rpc"
	"os"
	"os/exec"
	"strings"

	"switchyard.dev/tests/process"
)

// Config configures a browser.
type Config struct {
	// Hosts are the addresses, host:port, of host names; a name that begins with *. has all names below it. No other
	// name is found.
	Hosts map[string]string
	// Keys are the SHA-256 of the public keys (SubjectPublicKeyInfo) in certificates, in base64, that the browser
	// accepts from any authority.
	Keys []string
	// Command is the program that executes the driver, such as `ip netns exec NAME`. Default: none.
	Command []string
}

// Browser is a Chromium with one page. Make one with Start. It is not safe for concurrent use.
type Browser struct {
	cmd   *exec.Cmd
	calls *rpc.Client
}

// View is what a page is shown on. NoScript disables scripts.
type View struct {
	Width, Height  int64
	Dark, NoScript bool
}

// Request is a request that the browser has sent. Document is the URL of the page that sent it, Kind its type in the
// DevTools protocol, and Bytes the size of the answer with its headers.
type Request struct {
	URL, Document, Kind string
	Bytes               float64
}

// Traffic is what the browser has sent, and the errors of its console.
type Traffic struct {
	Requests []Request
	Console  []string
}

// none is the argument or the answer of calls without one.
type none struct{ Nothing bool }

// flags are those that Chromium needs as root and without a network.
var flags = map[string]string{
	"headless": "", "no-sandbox": "", "disable-gpu": "", "disable-quic": "", "no-first-run": "", "disable-background-networking": "",
	"disable-component-update": "", "disable-sync": "", "hide-scrollbars": "", "lang": "en-US",
}

// Start starts a browser with an empty profile; ErrNone: this machine has none. The caller closes it.
func Start(ctx context.Context, c Config) (b *Browser, err error) {
	if err := Installed(); err != nil {
		return nil, err
	}
	path, err := driver(ctx)
	if err != nil {
		return nil, err
	}
	argv := append(append([]string{}, c.Command...), path)
	b = &Browser{cmd: exec.Command(argv[0], argv[1:]...)} //nolint:noctx // Close ends it
	b.cmd.Stderr = os.Stderr
	if b.calls, err = process.Connect(b.cmd); err != nil {
		return nil, fmt.Errorf("start the driver of the browser: %w", err)
	}
	all := map[string]string{"host-resolver-rules": rules(c.Hosts)}
	if len(c.Keys) > 0 {
		all["ignore-certificate-errors-spki-list"] = strings.Join(c.Keys, ",")
	}
	for name, value := range flags {
		all[name] = value
	}
	if err := b.call("Start", struct {
		Program string
		Flags   map[string]string
	}{program, all}, &none{}); err != nil {
		return nil, errors.Join(fmt.Errorf("start Chromium: %w", err), b.Close())
	}
	return b, nil
}

// rules returns the rules of the resolver.
func rules(hosts map[string]string) string {
	var all []string
	for name, address := range hosts {
		all = append(all, "MAP "+name+" "+address)
	}
	return strings.Join(append(all, "MAP * ~NOTFOUND", "EXCLUDE 127.0.0.1"), ", ")
}

// Close ends the browser.
func (b *Browser) Close() error {
	return errors.Join(b.calls.Close(), b.cmd.Wait())
}

func (b *Browser) call(method string, argument, answer any) error {
	return b.calls.Call("Browser."+method, argument, answer)
}

// Open opens a URL, and returns once the page is loaded.
func (b *Browser) Open(url string) error { return b.call("Open", url, &none{}) }

// Click clicks the first element with a selector, once it is visible.
func (b *Browser) Click(selector string) error { return b.call("Click", selector, &none{}) }

// Type types a text into the first element with a selector, or, with the selector "", wherever the focus is.
func (b *Browser) Type(selector, text string) error {
	return b.call("Type", struct{ Selector, Text string }{selector, text}, &none{})
}

// Look shows pages so from now on.
func (b *Browser) Look(v View) error { return b.call("Look", v, &none{}) }

// Intercept is what the driver does with requests.
type Intercept struct {
	// Files are served in place of other hosts, by their URLs.
	Files map[string]string
	// Headers are added to requests with a URL that matches Pattern, in which * is any text.
	Pattern string
	Headers map[string]string
}

// Intercept intercepts requests from now on.
func (b *Browser) Intercept(i Intercept) error { return b.call("Intercept", i, &none{}) }

// Screenshot writes the whole page to a file, as PNG.
func (b *Browser) Screenshot(path string) error { return b.call("Screenshot", path, &none{}) }

// Traffic returns what there was since the last call.
func (b *Browser) Traffic() (t Traffic, err error) {
	err = b.call("Traffic", none{}, &t)
	return t, err
}

// Evaluate evaluates an expression in the page, waits for it if it is a promise, and decodes its value; nil: it has none.
func (b *Browser) Evaluate(expression string, into any) error {
	var text string
	if err := b.call("Evaluate", expression, &text); err != nil || into == nil {
		return err
	}
	return json.Unmarshal([]byte(text), into)
}

// Finding is a rule of axe-core that elements of a page break.
type Finding struct {
	ID, Impact, Help string
	Nodes            []struct {
		HTML           string
		FailureSummary string
	}
}

// String returns the rule and the elements.
func (f Finding) String() string {
	text := fmt.Sprintf("%s (%s): %s", f.ID, f.Impact, f.Help)
	for _, n := range f.Nodes {
		text += fmt.Sprintf("\n   %s: %s", n.HTML, n.FailureSummary)
	}
	return text
}

// Audit returns the findings of axe-core about the page. The argument is its script.
func (b *Browser) Audit(script string) (found []Finding, err error) {
	if err := b.Evaluate(script+"; true", nil); err != nil {
		return nil, err
	}
	err = b.Evaluate(audit, &found)
	return found, err
}

// audit reduces the findings to what a Finding has.
const audit = `axe.run({resultTypes: ['violations']}).then(r => r.violations.map(v => ({
	id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.map(n => ({html: n.html, failureSummary: n.failureSummary}))
})))`
