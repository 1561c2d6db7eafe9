package browser_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"switchyard.dev/tests/browser"
	"switchyard.dev/tests/figures"
)

var (
	screenshots = flag.String("screenshots", "", "folder for screenshots of the page; empty: none are kept")
	changes     = flag.Int("changes", 3, "how many changes of a sandbox a page shows, for the figures")
)

// most is how many bytes a browser may receive for the page.
const most = 100 << 10

// views are the screens on which each page is checked, by the suffix of its screenshot.
var views = map[string]browser.View{
	"wide-light": {Width: 1280, Height: 800}, "wide-dark": {Width: 1280, Height: 800, Dark: true},
	"phone-light": {Width: 390, Height: 844}, "phone-dark": {Width: 390, Height: 844, Dark: true},
}

// visit is a person with a browser at the page.
type visit struct {
	*site
	*browser.Browser
	axe string
	// received are the bytes for the page.
	received float64
}

// TestPage: a person logs in, watches a sandbox become ready, reads why it is broken, opens its preview and deletes it.
func TestPage(t *testing.T) {
	s := newSite(t)
	v := &visit{site: s, Browser: start(t, browser.Config{Hosts: map[string]string{pageHost: apiAddress, "*." + previewDomain: previewsAddress}, Keys: s.keys})}
	var err error
	v.axe, err = browser.Axe(t.Context())
	s.Must(err)
	s.Must(v.Look(views["wide-light"]))
	v.logIn()
	v.shows("There are no sandboxes yet")
	v.check("empty")
	s.apply("checkout", "cart:2", "Another cart")
	v.press("#s-checkout")
	v.state("Ready")
	v.check("ready")
	s.apply("checkout", "cart:"+broken, "Another cart")
	v.shows("exit code 3")
	v.check("broken")
	v.quiet()

	received := v.received
	v.others()
	v.visit("/sandboxes/checkout")
	s.apply("checkout", "cart:3", "Another cart")
	v.state("Ready")
	v.measure()
	v.received = received

	v.preview()
	v.delete()
	v.quiet()
	t.Logf("the browser received %.0f bytes for the page", v.received)
	if v.received > most {
		t.Errorf("the browser received %.0f bytes for the page; at most %d", v.received, most)
	}
}

// others reads the other pages, with a broken sandbox.
func (v *visit) others() {
	v.Helper()
	for _, p := range []struct{ path, shows, name string }{
		{"/", "exit code 3", "list"}, {"/clusters", cluster, "clusters"}, {"/resources", "No sandbox has resources", "resources"},
		{"/routegroups", "There are no route groups", "routegroups"}, {"/captures", "Captures", "captures"}, {"/audit", "sandbox", "audit"}, {"/login/device", "Log out", "device"},
	} {
		v.visit(p.path)
		v.shows(p.shows)
		v.check(p.name)
	}
	v.withoutScripts()
	v.withKeyboard()
	v.quiet()
}

// logIn opens the page, logs in at the issuer, and returns to the page.
func (v *visit) logIn() {
	v.Helper()
	v.visit("/")
	v.has("#username")
	v.Must(v.Type("#username", "test-user2"))
	v.Must(v.Type("#password", "verysecure"))
	v.press("button")
	v.until("the browser is back at the page", func() error {
		var at string
		if err := v.Evaluate("location.href", &at); err != nil || at != v.at("/") {
			return fmt.Errorf("it is at %s, %w", at, err)
		}
		return nil
	})
	// The issuer has no icon.
	t, err := v.Traffic()
	v.Must(err)
	v.count(t)
}

// at returns the URL of a path of the page.
func (v *visit) at(path string) string { return "https://" + pageHost + path }

// visit opens a path of the page.
func (v *visit) visit(path string) {
	v.Helper()
	v.Must(v.Open(v.at(path)))
}

// has waits for an element with a selector.
func (v *visit) has(selector string) {
	v.Helper()
	v.until("there is "+selector, func() error {
		var is bool
		if err := v.Evaluate(fmt.Sprintf("document.querySelector(%q) != null", selector), &is); err != nil || !is {
			return errors.Join(err, v.showing("an element "+selector))
		}
		return nil
	})
}

// press clicks an element, once it is there.
func (v *visit) press(selector string) {
	v.Helper()
	v.has(selector)
	v.Must(v.Click(selector))
}

// shows waits until the page shows a text.
func (v *visit) shows(text string) {
	v.Helper()
	v.until(fmt.Sprintf("the page shows %q", text), func() error { return v.showing(text) })
}

// showing returns an error unless the page shows a text.
func (v *visit) showing(text string) error {
	var all string
	if err := v.Evaluate("document.body ? document.body.innerText : ''", &all); err != nil || !strings.Contains(all, text) {
		return fmt.Errorf("it shows %.1000s, %w", all, errors.Join(err, errors.New("without the text")))
	}
	return nil
}

// state waits until the page of a sandbox shows its state.
func (v *visit) state(text string) {
	v.Helper()
	v.until("the state is "+text, func() error {
		var is string
		if err := v.Evaluate("document.querySelector('main .head .state')?.innerText", &is); err != nil || is != text {
			return fmt.Errorf("it is %q, %w", is, err)
		}
		return nil
	})
}

// check checks a page on all screens: axe-core finds nothing, and nothing is beyond the width.
func (v *visit) check(name string) {
	v.Helper()
	for suffix, view := range views {
		v.Must(v.Look(view))
		found, err := v.Audit(v.axe)
		v.Must(err)
		for _, f := range found {
			v.Errorf("%s, %s: %s", name, suffix, f)
		}
		var width int64
		v.Must(v.Evaluate("document.documentElement.scrollWidth", &width))
		if width > view.Width {
			v.Errorf("%s, %s: the page is %d wide", name, suffix, width)
		}
		var broken []string
		v.Must(v.Evaluate(brokenWords, &broken))
		if len(broken) > 0 {
			v.Errorf("%s, %s: lines break within %q", name, suffix, broken)
		}
		v.picture(name + "-" + suffix)
	}
	v.Must(v.Look(views["wide-light"]))
}

// brokenWords are the short words of tables that are on more than one line.
const brokenWords = `[...document.querySelectorAll("th, td")].flatMap(cell => {
	const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), found = [], range = document.createRange();
	while (texts.nextNode()) for (const word of texts.currentNode.data.matchAll(/(?<!\S)[\w.@]{2,24}(?!\S)/g)) {
		range.setStart(texts.currentNode, word.index);
		range.setEnd(texts.currentNode, word.index + word[0].length);
		if (new Set([...range.getClientRects()].map(r => r.top)).size > 1) found.push(word[0]);
	}
	return found;
})`

// picture keeps a screenshot, if they are wanted.
func (v *visit) picture(name string) {
	v.Helper()
	if *screenshots != "" {
		v.Must(os.MkdirAll(*screenshots, 0o755))
		v.Must(v.Screenshot(filepath.Join(*screenshots, name+".png")))
	}
}

// withoutScripts reads a sandbox without scripts.
func (v *visit) withoutScripts() {
	v.Helper()
	v.Must(v.Look(browser.View{Width: 1280, Height: 800, NoScript: true}))
	v.visit("/")
	v.press("#s-checkout")
	v.shows("exit code 3")
	v.Must(v.Look(views["wide-light"]))
}

// withKeyboard follows links with the keyboard.
func (v *visit) withKeyboard() {
	v.Helper()
	v.visit("/")
	for _, selector := range []string{".skip", "nav a[aria-current]", "#s-checkout"} {
		for tabs := 0; ; tabs++ {
			v.Must(v.Type("", "\t"))
			var is bool
			if v.Must(v.Evaluate(fmt.Sprintf("document.activeElement.matches(%q)", selector), &is)); is {
				break
			} else if tabs > 30 {
				v.Fatalf("Tab does not reach %s", selector)
			}
		}
	}
	v.Must(v.Type("", "\r"))
	v.shows("Why it is not ready")
}

// preview opens the preview of the sandbox from its page.
func (v *visit) preview() {
	v.Helper()
	var link string
	v.Must(v.Evaluate("document.querySelector(\"main a[href^='https://cart--checkout."+previewDomain+"']\")?.href", &link))
	v.Must(v.Open(link))
	v.shows("Cart of")
	var sandbox struct{ RoutingKey string }
	_, text, err := v.call(http.MethodGet, "sandboxes/checkout", "")
	v.Must(err)
	v.Must(json.Unmarshal([]byte(text), &sandbox))
	v.Must(v.showing("sd-routing-key=" + sandbox.RoutingKey))
	v.picture("preview")
	v.visit("/sandboxes/checkout")
}

// delete deletes the sandbox, and waits until the page has none.
func (v *visit) delete() {
	v.Helper()
	v.press("#delete")
	v.shows("Delete checkout?")
	v.check("delete")
	v.press("#confirm")
	v.until("the sandbox is deleted", func() error {
		status, text, err := v.call(http.MethodGet, "sandboxes/checkout", "")
		if err != nil || status != http.StatusNotFound {
			return fmt.Errorf("%d %s, %w", status, text, err)
		}
		return nil
	})
	v.shows("Go to sandboxes")
	v.check("deleted")
	v.visit("/")
	v.shows("There are no sandboxes yet")
}

// quiet fails unless the browser has sent requests to the page, its previews and, for documents, the issuer only, and
// its console has no error.
func (v *visit) quiet() {
	v.Helper()
	t, err := v.Traffic()
	v.Must(err)
	v.count(t)
	for _, line := range t.Console {
		v.Errorf("the console has: %s", line)
	}
}

// count adds up the bytes for the page, and fails for requests to other hosts.
func (v *visit) count(t browser.Traffic) {
	v.Helper()
	for _, r := range t.Requests {
		host, document := v.hostOf(r.URL), v.hostOf(r.Document)
		switch {
		case strings.HasPrefix(r.URL, "data:"), host == document && (host == pageHost || strings.HasSuffix(host, "."+previewDomain)), strings.HasPrefix(r.Document, v.issuer):
		default:
			v.Errorf("%s has sent a foreign request: %s", r.Document, r.URL)
		}
		if host == pageHost {
			v.received += r.Bytes
		}
	}
}

// hostOf returns the host of a URL.
func (v *visit) hostOf(text string) string {
	v.Helper()
	u, err := url.Parse(text)
	v.Must(err)
	return u.Hostname()
}

// measure prints how long changes take to be visible, and a page to be current after a restart of the control plane.
func (v *visit) measure() {
	v.Helper()
	took := make([]time.Duration, 0, *changes)
	for i := range *changes {
		took = append(took, v.seen(fmt.Sprint("change ", i)))
	}
	figures.AtMost(os.Stdout, "PAGE_CHANGE_TO_VISIBLE_P95", figures.Millis(took, 0.95), "ms", 500)
	v.quiet()
	v.restart()
	after := v.seen("restarted")
	figures.AtMost(os.Stdout, "PAGE_CURRENT_AFTER_RESTART", after.Seconds(), "s", 5)
	// Browsers report an interrupted stream as an error.
	t, err := v.Traffic()
	v.Must(err)
	v.count(t)
}

// seen changes the description of the sandbox, and returns how long the page took to show it.
func (v *visit) seen(text string) time.Duration {
	v.Helper()
	visible := make(chan error, 1)
	go func() {
		visible <- v.Evaluate(fmt.Sprintf(`new Promise(done => {
			const look = () => document.body.innerText.includes(%q) && (watch.disconnect(), done(true));
			const watch = new MutationObserver(look);
			watch.observe(document.body, {subtree: true, childList: true, characterData: true});
			look();
		})`, text), nil)
	}()
	began := time.Now()
	v.apply("checkout", "cart:3", text)
	v.Must(<-visible)
	return time.Since(began)
}
